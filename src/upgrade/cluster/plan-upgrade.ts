import { isNewerVersion } from '../../base/compare-versions.ts';
import type { Manifest } from '../../model/manifest.ts';
import { AGENT_SET, BIRD_SET } from '../../install/cluster/names.ts';
import type { Step } from '../../plans/plan.ts';
import { userCreated } from '../host-endpoints/all-interfaces.ts';
import { areAgentsHeld } from './held-agents.ts';
import { detectInstallation, followingPods } from './detect-installation.ts';
import { agentStages, operatorStages } from './plan-agents.ts';
import { chartStages } from './plan-chart.ts';
import { metadataIn, releaseIn } from './objects-in.ts';
import {
  applyStep,
  isOperators,
  NO_DOWNTIME,
  type PlanFacts,
  pruneSteps,
  type UpgradeStage,
  writeStep,
} from './plan-steps.ts';
import type { ClusterSnapshot, UpgradeMethod } from './snapshot.ts';
import { objectsOf, type UpgradeTarget } from './target.ts';
import type { UpgradePlan, UpgradeStepData } from './upgrade-action.ts';

/** From this release on, host endpoints for all interfaces drop what no policy allows. */
const STRICT_HOST_ENDPOINTS = 'v3.14.0';

/** Plans the upgrade of an installation to the target. A cluster that has the target's release gets the same steps, all done. Pure. */
export function planUpgrade(snapshot: ClusterSnapshot, target: UpgradeTarget): UpgradePlan {
  const installed = detectInstallation(snapshot);
  const facts = { snapshot, target, installed, isDone: isAtTarget(snapshot, target) };
  return {
    stages: [
      { title: 'Back up', steps: [backUpStep(facts)] },
      hostEndpointStage(facts),
      ...METHODS[installed.method](facts),
      { title: 'Verify', steps: [verifyStep(facts)] },
      toolStage(facts),
      birdStage(facts),
      sidecarStage(facts),
      finishStage(facts),
    ],
    notes: notesOf(facts),
  };
}

/** Reports whether every workload and every running pod has the target's release, and agents are not held by a stopped upgrade. */
export function isAtTarget(snapshot: ClusterSnapshot, { release }: UpgradeTarget): boolean {
  const { releases } = detectInstallation(snapshot);
  if (areAgentsHeld(snapshot)) return false;
  const images = followingPods(snapshot.pods).flatMap((pod) => pod.images.slice(0, 1));
  return (
    Object.values(releases).every((found) => found === release) &&
    images.every((image) => image.endsWith(`:${release}`))
  );
}

/**
 * The specification replaces the operator's manifest. Replacing cannot create objects that are new in the target, so it is an
 * apply with forced conflicts, and the removal of what the target does not have any more.
 */
function operatorManifestStages(facts: PlanFacts): readonly UpgradeStage[] {
  const { target, isDone } = facts;
  const command = `kubectl apply --server-side --force-conflicts -f ${target.source}/${target.manifest}`;
  const definitions = target.stages.flatMap(({ stage, objects }) => (stage === 'definitions' ? objects : []));
  return operatorStages(facts, {
    title: 'Apply the operator',
    steps: [
      applyStep('definitions', definitions, { isDone, commands: [command] }),
      applyStep('operator', target.operator, { isDone, commands: [command] }),
      ...pruneSteps(facts, [...definitions, ...target.operator], isOperators),
    ],
  });
}

function manifestStages(facts: PlanFacts): readonly UpgradeStage[] {
  const { target, isDone } = facts;
  const file = `${target.source}/${target.manifest}`;
  const commands = [`kubectl apply --server-side --force-conflicts -f ${file}`];
  const before = target.stages.filter(({ stage, objects }) => stage !== 'nodes' && objects.length > 0);
  const nodes = target.stages.flatMap(({ stage, objects }) => (stage === 'nodes' ? objects : []));
  const agent = nodes.find((object) => metadataIn(object).name === AGENT_SET);
  const others = nodes.filter((object) => object !== agent);
  return [
    {
      title: 'Apply what pods do not notice',
      steps: [
        ...before.map(({ stage, objects }) => applyStep(stage, objects, { isDone, commands })),
        ...(others.length === 0 ? [] : [applyStep('nodes', others, { isDone, commands })]),
      ],
    },
    ...(agent === undefined ? [] : agentStages(facts, agent)),
    { title: 'Remove what the release no longer has', steps: pruneSteps(facts, objectsOf(target), isInstallations) },
  ];
}

function backUpStep({ isDone }: PlanFacts): Step<UpgradeStepData> {
  return writeStep('back up resources, records, objects and chart records, with checksums', {
    act: 'back-up',
    id: 'back-up',
    isDone,
    commands: ['netplugctl upgrade backup --to DIR'],
    downtime: NO_DOWNTIME,
  });
}

/** Stages of each method of installation. */
const METHODS: Readonly<Record<UpgradeMethod, (facts: PlanFacts) => readonly UpgradeStage[]>> = {
  operator: operatorManifestStages,
  chart: chartStages,
  manifest: manifestStages,
};

/** The specification's step before an upgrade from before v3.14. */
function hostEndpointStage({ snapshot, installed, isDone }: PlanFacts): UpgradeStage {
  const endpoints = userCreated(snapshot.datastore.hostEndpoints ?? []);
  const isNeeded = endpoints.length > 0 && isBefore(installed.from, STRICT_HOST_ENDPOINTS);
  const step = writeStep(
    `label ${String(endpoints.length)} host endpoints for all interfaces, and allow and log their traffic`,
    {
      act: 'prepare-host-endpoints',
      id: 'prepare-host-endpoints',
      isDone: isDone || snapshot.datastore.preparation.length > 0,
      commands: ['netplugctl host-endpoints prepare-upgrade'],
      downtime: NO_DOWNTIME,
    },
  );
  return { title: 'Prepare host endpoints for all interfaces', steps: isNeeded ? [step] : [] };
}

function verifyStep({ isDone }: PlanFacts): Step<UpgradeStepData> {
  return writeStep('verify releases, ready pods and the network of every node', {
    act: 'verify',
    id: 'verify',
    isDone,
    commands: ['netplugctl upgrade verify', 'netplugctl version'],
    downtime: NO_DOWNTIME,
  });
}

function toolStage({ target, isDone }: PlanFacts): UpgradeStage {
  const text = `replace every netplugctl by the one of ${target.release}; older ones must not be used any more`;
  const command = ['netplugctl', 'version'];
  const data: UpgradeStepData = {
    act: 'verify',
    id: 'tool',
    isDone,
    commands: [command.join(' ')],
    downtime: NO_DOWNTIME,
  };
  return { title: 'Replace the management tool', steps: [{ kind: 'command', text, command, ...data }] };
}

/** Nothing replaces BIRD by itself, because its sessions would end. */
function birdStage({ snapshot, target }: PlanFacts): UpgradeStage {
  const title = 'Replace BIRD';
  const old = snapshot.pods.filter(
    ({ component, images: [image = ''] }) => component === BIRD_SET && releaseIn(image) !== target.release,
  );
  if (old.length === 0) return { title, steps: [] };
  const command = `kubectl delete pod -n netplug-system -l app.kubernetes.io/name=${BIRD_SET} --field-selector spec.nodeName=NODE`;
  const step = {
    kind: 'command',
    text: `replace BIRD on ${String(old.length)} nodes, one after the other, when it suits you: it works on until then`,
    command: command.split(' '),
    act: 'verify',
    id: 'replace-bird',
    isDone: false,
    isOptional: true,
    commands: [command],
    downtime: 'sessions of the node end and come back; peers that restart gracefully keep its routes meanwhile',
  } as const;
  return { title, steps: [step] };
}

function sidecarStage({ snapshot: { mesh, sidecars }, target }: PlanFacts): UpgradeStage {
  const old = sidecars.filter(({ version }) => isNewerVersion(target.release, version));
  if (mesh === undefined || old.length === 0) return { title: 'Upgrade sidecars', steps: [] };
  const apply = ['kubectl', 'apply', '-f', `${target.source}/alp/istio-inject-configmap-${mesh}.yaml`];
  return {
    title: 'Upgrade sidecars of the application layer',
    steps: [
      {
        kind: 'command',
        text: `apply the injector template for mesh version ${mesh}, which comes with the sidecar`,
        command: apply,
        act: 'verify',
        id: 'injector',
        isDone: false,
        commands: [apply.join(' ')],
        downtime: NO_DOWNTIME,
      },
      ...old.map(({ kind, namespace, name, version }) =>
        writeStep(`restart ${kind} ${namespace}/${name}, whose sidecar has release ${version}`, {
          act: 'restart',
          workload: { kind, namespace, name },
          id: `restart-${namespace}-${name}`,
          isDone: false,
          // Only after the template was applied.
          isOptional: true,
          commands: [`kubectl rollout restart ${kind.toLowerCase()}/${name} -n ${namespace}`],
          downtime: 'as its own rolling update allows',
        }),
      ),
    ],
  };
}

/** The end of the procedure for host endpoints needs a person who reads the logs (map: up-hostendpoints-order). */
function finishStage({ snapshot, target }: PlanFacts): UpgradeStage {
  const { preparation, hostEndpoints } = snapshot.datastore;
  const isPrepared = preparation.length > 0;
  const isLeft = userCreated(hostEndpoints ?? []).length > 0;
  if (!isLeft) return { title: 'Finish host endpoints', steps: [] };
  const data = { act: 'verify', isDone: false, downtime: NO_DOWNTIME } as const;
  const undo = ['netplugctl', 'host-endpoints', 'prepare-upgrade', '--undo'];
  const migrate = ['netplugctl', 'host-endpoints', 'migrate'];
  return {
    title: `Finish host endpoints, once all nodes have ${target.release}`,
    steps: [
      ...(isPrepared
        ? [
            {
              kind: 'command' as const,
              text: 'read the kernel logs of the nodes, write the policies that are needed, then remove the temporary policy',
              command: undo,
              ...data,
              id: 'finish-host-endpoints',
              commands: [undo.join(' ')],
            },
          ]
        : []),
      {
        kind: 'command',
        text: 'replace host endpoints for all interfaces by automatic ones, if wanted',
        command: migrate,
        ...data,
        id: 'migrate-host-endpoints',
        isOptional: true,
        commands: [migrate.join(' ')],
      },
    ],
  };
}

function notesOf({ snapshot, installed, target }: PlanFacts): readonly string[] {
  const { from } = installed;
  return [
    ...(from !== undefined && isNewerVersion(from, target.release)
      ? [`${from} runs, which is newer than ${target.release}: this plan would go back`]
      : []),
    ...snapshot.unread.map(({ fact, why }) => `not read: ${fact}: ${why}`),
  ];
}

/** Whether the manifest of an installation made the object: it has its label, and is not the operator's. */
function isInstallations(object: Manifest): boolean {
  return metadataIn(object).labels['app.kubernetes.io/part-of'] === 'netplug' && !isOperators(object);
}

function isBefore(release: string | undefined, limit: string): boolean {
  return release === undefined || isNewerVersion(limit, release);
}
