import { isNewerVersion } from '../../base/compare-versions.ts';
import { SYSTEM_NAMESPACE } from '../../install/cluster/names.ts';
import type { Step, WriteStep } from '../../plans/plan.ts';
import { OPERATOR_NAME } from './detect-installation.ts';
import { metadataIn } from './objects-in.ts';
import { operatorStages } from './plan-agents.ts';
import { applyStep, type PlanFacts, type UpgradeStage, writeStep } from './plan-steps.ts';
import type { StepObject, UpgradeStepData } from './upgrade-action.ts';

/** Charts before this version create the operator's namespace, and are installed into the default namespace. */
const OWN_NAMESPACE_FROM = 'v3.23.0';
const OLD_NAMESPACE = 'default';
/** Where the operator runs, and charts from v3.23 on are installed. */
const OPERATOR_NAMESPACE = SYSTEM_NAMESPACE;
const RELEASE_NAME_ANNOTATION = 'meta.helm.sh/release-name';
export const RELEASE_NAMESPACE_ANNOTATION = 'meta.helm.sh/release-namespace';
/** Label of the records of a chart's release, by the specification. */
const RECORD_NAME = 'calico';

/** Objects whose ownership the specification passes on, with the kind as the API lists it. */
const PASSED_ON: readonly (StepObject & { readonly resource: string })[] = [
  { kind: 'Installation', name: 'default', resource: 'netplug.io/installations' },
  { kind: 'APIServer', name: 'default', resource: 'netplug.io/apiservers' },
  { kind: 'PodSecurityPolicy', name: OPERATOR_NAME, resource: 'policy/podsecuritypolicies' },
  { kind: 'Deployment', namespace: OPERATOR_NAMESPACE, name: OPERATOR_NAME, resource: 'apps/deployments' },
  { kind: 'ServiceAccount', namespace: OPERATOR_NAMESPACE, name: OPERATOR_NAME, resource: '/serviceaccounts' },
  { kind: 'ClusterRole', name: OPERATOR_NAME, resource: 'rbac.authorization.k8s.io/clusterroles' },
  { kind: 'ClusterRoleBinding', name: OPERATOR_NAME, resource: 'rbac.authorization.k8s.io/clusterrolebindings' },
];

/** The specification's upgrade of a chart: ownership first when the release is in the default namespace, then definitions and chart. */
export function chartStages(facts: PlanFacts): readonly UpgradeStage[] {
  const { installed, target, isDone } = facts;
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
        applyStep('definitions', definitions, {
          isDone,
          commands: [`kubectl apply --server-side --force-conflicts -f ${target.source}/${target.definitions}`],
        }),
      ],
    },
    ...operatorStages(facts, {
      title: verb === 'install' ? 'Install the chart into the namespace of the operator' : 'Upgrade the chart',
      steps: [
        writeStep(`${verb} release "${release}" in namespace "${namespace}", with the values of the present release`, {
          act: 'chart',
          verb,
          release,
          namespace,
          id: 'chart',
          isDone,
          commands: [
            `helm get values ${release} -n ${installed.chart?.namespace ?? OLD_NAMESPACE} -o yaml > values.yaml`,
            `helm ${verb} ${release} ${target.source}/${target.chart} -n ${namespace} -f values.yaml`,
          ],
          downtime: 'none',
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

function passOnStep(
  { snapshot }: PlanFacts,
  { resource, ...object }: (typeof PASSED_ON)[number],
): WriteStep<UpgradeStepData> {
  const name = `${object.kind} "${object.name}"`;
  const found = snapshot.objects.find((each) => each['kind'] === object.kind && metadataIn(each).name === object.name);
  const isServed = snapshot.served.includes(resource);
  const why = isServed ? `skip ${name}: it does not exist` : `skip ${name}: the API server does not serve this kind`;
  const at = object.namespace === undefined ? '' : `-n ${object.namespace} `;
  return writeStep(
    found === undefined ? why : `annotate ${name} with ${RELEASE_NAMESPACE_ANNOTATION}=${OPERATOR_NAMESPACE}`,
    {
      act: 'pass-release-on',
      object,
      namespace: OPERATOR_NAMESPACE,
      id: `pass-on-${object.kind.toLowerCase()}`,
      isDone: found === undefined || metadataIn(found).annotations[RELEASE_NAMESPACE_ANNOTATION] === OPERATOR_NAMESPACE,
      commands: [
        `kubectl ${at}patch ${object.kind.toLowerCase()} ${object.name} --type=merge -p '{"metadata":{"annotations":{"${RELEASE_NAMESPACE_ANNOTATION}":"${OPERATOR_NAMESPACE}"}}}'`,
      ],
      downtime: 'none',
    },
  );
}

/** They are no longer read, and are kept in the backup. */
function deleteRecordsStep({ snapshot, installed }: PlanFacts): Step<UpgradeStepData> {
  const name = installed.chart?.name ?? RECORD_NAME;
  const records = snapshot.charts
    .filter((release) => release.namespace === OLD_NAMESPACE && release.name === name)
    .map(({ record }) => record);
  const command = `kubectl delete secret -n ${OLD_NAMESPACE} -l name=${name},owner=helm`;
  return writeStep(`delete the records of release "${name}" in namespace "${OLD_NAMESPACE}"`, {
    act: 'delete-records',
    records,
    namespace: OLD_NAMESPACE,
    id: 'delete-records',
    isDone: records.length === 0,
    isOptional: true,
    commands: [`${command} --dry-run=client`, command],
    downtime: 'none',
  });
}
