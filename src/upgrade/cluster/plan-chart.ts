import { isNewerVersion } from '../../base/compare-versions.ts';
import { OPERATOR, SYSTEM_NAMESPACE } from '../../install/cluster/names.ts';
import { referenceTo } from '../../kube/objects/reference.ts';
import type { Step, WriteStep } from '../../plans/plan.ts';
import {
  OLD_NAMESPACE,
  OWN_NAMESPACE_FROM,
  RELEASE_NAME_ANNOTATION,
  RELEASE_NAMESPACE_ANNOTATION,
} from './chart-owner.ts';
import { metadataIn } from './objects-in.ts';
import { operatorStages } from './plan-agents.ts';
import { applyStep, type PlanFacts, type UpgradeStage, writeStep } from './plan-steps.ts';
import type { UpgradeStepData } from './upgrade-action.ts';

/** Where the operator runs, and charts from v3.23 on are installed. */
const OPERATOR_NAMESPACE = SYSTEM_NAMESPACE;
/** Label of the records of a chart's release, by the specification. */
const RECORD_NAME = 'calico';

interface PassedOn {
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  /** The kind as the API lists it. */
  readonly resource: string;
}

/** Objects whose ownership the specification passes on. */
const PASSED_ON: readonly PassedOn[] = [
  { kind: 'Installation', name: 'default', resource: 'netplug.io/installations' },
  { kind: 'APIServer', name: 'default', resource: 'netplug.io/apiservers' },
  { kind: 'PodSecurityPolicy', name: OPERATOR, resource: 'policy/podsecuritypolicies' },
  { kind: 'Deployment', namespace: OPERATOR_NAMESPACE, name: OPERATOR, resource: 'apps/deployments' },
  { kind: 'ServiceAccount', namespace: OPERATOR_NAMESPACE, name: OPERATOR, resource: '/serviceaccounts' },
  { kind: 'ClusterRole', name: OPERATOR, resource: 'rbac.authorization.k8s.io/clusterroles' },
  { kind: 'ClusterRoleBinding', name: OPERATOR, resource: 'rbac.authorization.k8s.io/clusterrolebindings' },
];

/** The specification's upgrade of a chart: ownership first when the release is in the default namespace, then definitions and chart. */
export function chartStages(facts: PlanFacts): readonly UpgradeStage[] {
  const { installed, target } = facts;
  const release = installed.chart?.name ?? RECORD_NAME;
  const isMigrated = !mustMigrate(facts);
  const verb = isMigrated ? 'upgrade' : 'install';
  const definitions = target.stages.flatMap(({ stage, objects }) => (stage === 'definitions' ? objects : []));
  const namespace = isMigrated ? (installed.chart?.namespace ?? OPERATOR_NAMESPACE) : OPERATOR_NAMESPACE;
  return [
    {
      title: `Pass the ownership of the chart's objects on to the namespace "${OPERATOR_NAMESPACE}"`,
      steps: isMigrated ? [] : [...PASSED_ON.map((object) => passOnStep(facts, object)), ...furtherSteps(facts)],
    },
    {
      title: 'Apply the CustomResourceDefinitions',
      steps: [
        applyStep(facts, { stage: 'definitions', objects: definitions }, [
          `kubectl apply --server-side --force-conflicts -f ${target.source}/${target.definitions}`,
        ]),
      ],
    },
    ...operatorStages(facts, {
      title: verb === 'install' ? 'Install the chart into the namespace of the operator' : 'Upgrade the chart',
      steps: [
        writeStep(facts, {
          act: 'chart',
          verb,
          release,
          namespace,
          id: 'chart',
          commands: [
            `helm get values ${release} -n ${installed.chart?.namespace ?? OLD_NAMESPACE} -o yaml > values.yaml`,
            `helm ${verb} ${release} ${target.source}/${target.chart} -n ${namespace} -f values.yaml`,
          ],
        }),
      ],
    }),
    {
      title: 'Delete the old records of the release, if wanted',
      steps: isMigrated ? [] : [deleteRecordsStep(facts)],
    },
  ];
}

/** Whether the release belongs to the default namespace, as charts before v3.23 require. */
function mustMigrate({ installed: { chart }, target }: PlanFacts): boolean {
  return (
    chart !== undefined &&
    chart.namespace === OLD_NAMESPACE &&
    isNewerVersion(OWN_NAMESPACE_FROM, chart.version) &&
    !isNewerVersion(OWN_NAMESPACE_FROM, target.release)
  );
}

/** Helm refuses to adopt any object of the chart that has another owner, also those that the specification does not name. */
function furtherSteps(facts: PlanFacts): readonly Step<UpgradeStepData>[] {
  const named = new Set(PASSED_ON.map(({ kind, name }) => `${kind}/${name}`));
  return facts.snapshot.objects.flatMap((object): Step<UpgradeStepData>[] => {
    const { name, namespace, annotations } = metadataIn(object);
    const kind = String(object['kind']);
    const isOwned = annotations[RELEASE_NAME_ANNOTATION] === facts.installed.chart?.name;
    if (!isOwned || named.has(`${kind}/${name}`)) return [];
    const step = passOnStep(facts, { kind, name, ...(namespace === undefined ? {} : { namespace }), resource: '' });
    return [{ ...step, id: `pass-on-${kind.toLowerCase()}-${name}` }];
  });
}

function passOnStep(facts: PlanFacts, { resource, kind, name, namespace }: PassedOn): WriteStep<UpgradeStepData> {
  const { objects, served } = facts.snapshot;
  const found = objects.find((each) => each['kind'] === kind && metadataIn(each).name === name);
  const why = served.includes(resource) ? 'it does not exist' : 'the API server does not serve this kind';
  const at = namespace === undefined ? '' : `-n ${namespace} `;
  return writeStep(facts, {
    act: 'pass-release-on',
    object: referenceTo(kind, { name, ...(namespace === undefined ? {} : { namespace }) }),
    namespace: OPERATOR_NAMESPACE,
    ...(found === undefined ? { skipped: why } : {}),
    id: `pass-on-${kind.toLowerCase()}`,
    isDone: found === undefined || metadataIn(found).annotations[RELEASE_NAMESPACE_ANNOTATION] === OPERATOR_NAMESPACE,
    commands: [
      `kubectl ${at}patch ${kind.toLowerCase()} ${name} --type=merge -p '{"metadata":{"annotations":{"${RELEASE_NAMESPACE_ANNOTATION}":"${OPERATOR_NAMESPACE}"}}}'`,
    ],
  });
}

/** Deletes the records of the chart, which are no longer read, and are kept in the backup. */
function deleteRecordsStep(facts: PlanFacts): Step<UpgradeStepData> {
  const release = facts.installed.chart?.name ?? RECORD_NAME;
  const objects = facts.snapshot.charts
    .filter((chart) => chart.namespace === OLD_NAMESPACE && chart.name === release)
    .map(({ record, namespace }) => referenceTo('Secret', { name: record, namespace }));
  const command = `kubectl delete secret -n ${OLD_NAMESPACE} -l name=${release},owner=helm`;
  return writeStep(facts, {
    act: 'delete-records',
    objects,
    release,
    namespace: OLD_NAMESPACE,
    id: 'delete-records',
    isDone: objects.length === 0,
    isOptional: true,
    commands: [`${command} --dry-run=client`, command],
  });
}
