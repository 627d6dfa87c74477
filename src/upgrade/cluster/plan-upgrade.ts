import { isNewerVersion } from '../../base/compare-versions.ts';
import { type InjectorFacts, placeOptions } from '../../checks/mesh-checks.ts';
import type { Manifest } from '../../model/manifest.ts';
import { AGENT_SET, BIRD_SET } from '../../install/cluster/names.ts';
import { referenceKey, referenceTo } from '../../kube/objects/reference.ts';
import { isBeforeStrict, userCreated } from '../host-endpoints/all-interfaces.ts';
import { areAgentsHeld } from './held-agents.ts';
import { detectInstallation, followingPods } from './detect-installation.ts';
import { agentStages, operatorStages } from './plan-agents.ts';
import { chartStages } from './plan-chart.ts';
import { releaseIn } from '../../model/image-release.ts';
import { metadataIn } from './objects-in.ts';
import {
  applyStep,
  commandStep,
  isOperators,
  type PlanFacts,
  pruneSteps,
  type TextOf,
  type UpgradeStage,
  writeStep,
} from './plan-steps.ts';
import { hasOlderSidecar, leftToUser } from './sidecars.ts';
import type { ClusterSnapshot, UpgradeMethod } from './snapshot.ts';
import { objectsOf, type UpgradeTarget } from './target.ts';
import type { UpgradePlan } from './upgrade-action.ts';
import { usesFanOut } from './uses-fan-out.ts';

/** Plans the upgrade of an installation to the target. A cluster that has the target's release gets the same steps, all done. Pure. */
export function planUpgrade(snapshot: ClusterSnapshot, target: UpgradeTarget, textOf: TextOf): UpgradePlan {
  const installed = detectInstallation(snapshot);
  const facts = { snapshot, target, installed, isDone: isAtTarget(snapshot, target), textOf };
  const backUp = writeStep(facts, { act: 'back-up', id: 'back-up', commands: ['netplugctl upgrade backup --to DIR'] });
  const verifyCommands = ['netplugctl upgrade verify', 'netplugctl version'];
  const verify = writeStep(facts, { act: 'verify', id: 'verify', commands: verifyCommands });
  return {
    stages: [
      { title: 'Back up', steps: [backUp] },
      hostEndpointStage(facts),
      ...METHODS[installed.method](facts),
      { title: 'Verify', steps: [verify] },
      toolStage(facts),
      birdStage(facts),
      sidecarStage(facts),
      finishStage(facts),
    ],
    notes: notesOf(facts),
  };
}

/**
 * Reports whether every workload and every running pod has the target's release, agents are not held by a stopped upgrade, and
 * use the fan-out as in the target.
 */
export function isAtTarget(snapshot: ClusterSnapshot, target: UpgradeTarget): boolean {
  const { release } = target;
  const { method, releases } = detectInstallation(snapshot);
  if (areAgentsHeld(snapshot)) return false;
  // With an operator, the Installation decides it.
  if (method === 'manifest' && usesFanOut(objectsOf(target)) !== usesFanOut(snapshot.objects)) return false;
  const images = followingPods(snapshot.pods).flatMap((pod) => pod.images.slice(0, 1));
  return (
    Object.values(releases).every((found) => found === release) && images.every((image) => releaseIn(image) === release)
  );
}

/**
 * The specification replaces the operator's manifest. Replacing cannot create objects that are new in the target, so it is an
 * apply with forced conflicts, and the removal of what the target does not have any more.
 */
function operatorManifestStages(facts: PlanFacts): readonly UpgradeStage[] {
  const { target } = facts;
  const command = `kubectl apply --server-side --force-conflicts -f ${target.source}/${target.manifest}`;
  const definitions = target.stages.flatMap(({ stage, objects }) => (stage === 'definitions' ? objects : []));
  return operatorStages(facts, {
    title: 'Apply the operator',
    steps: [
      applyStep(facts, { stage: 'definitions', objects: definitions }, [command]),
      applyStep(facts, { stage: 'operator', objects: target.operator }, [command]),
      ...pruneSteps(facts, [...definitions, ...target.operator], isOperators),
    ],
  });
}

function manifestStages(facts: PlanFacts): readonly UpgradeStage[] {
  const { target } = facts;
  const file = `${target.source}/${target.manifest}`;
  const commands = [`kubectl apply --server-side --force-conflicts -f ${file}`];
  const later = ['typha', 'nodes'];
  const before = target.stages.filter(({ stage, objects }) => !later.includes(stage) && objects.length > 0);
  const servers = target.stages.filter(({ stage, objects }) => stage === 'typha' && objects.length > 0);
  const nodes = target.stages.flatMap(({ stage, objects }) => (stage === 'nodes' ? objects : []));
  const agent = nodes.find((object) => metadataIn(object).name === AGENT_SET);
  const others = nodes.filter((object) => object !== agent);
  return [
    {
      title: 'Apply what pods do not notice',
      steps: [
        ...before.map((stage) => applyStep(facts, stage, commands)),
        ...(others.length === 0 ? [] : [applyStep(facts, { stage: 'nodes', objects: others }, commands)]),
      ],
    },
    { title: 'Replace the servers of the fan-out', steps: servers.map((stage) => applyStep(facts, stage, commands)) },
    ...(agent === undefined ? [] : agentStages(facts, agent)),
    { title: 'Remove what the release no longer has', steps: pruneSteps(facts, objectsOf(target), isInstallations) },
  ];
}

/** Stages of each method of installation. */
const METHODS: Readonly<Record<UpgradeMethod, (facts: PlanFacts) => readonly UpgradeStage[]>> = {
  operator: operatorManifestStages,
  chart: chartStages,
  manifest: manifestStages,
};

/** The specification's step before an upgrade from before v3.14. */
function hostEndpointStage(facts: PlanFacts): UpgradeStage {
  const { snapshot, installed, isDone } = facts;
  const endpoints = userCreated(snapshot.datastore.hostEndpoints ?? []);
  const isNeeded = endpoints.length > 0 && isBeforeStrict(installed);
  const step = writeStep(facts, {
    act: 'prepare-host-endpoints',
    endpoints: endpoints.length,
    id: 'prepare-host-endpoints',
    isDone: isDone || snapshot.datastore.preparation.length > 0,
    commands: ['netplugctl host-endpoints prepare-upgrade'],
  });
  return { title: 'Prepare host endpoints for all interfaces', steps: isNeeded ? [step] : [] };
}

function toolStage({ target, isDone }: PlanFacts): UpgradeStage {
  const text = `replace every netplugctl by the one of ${target.release}; older ones must not be used any more`;
  return {
    title: 'Replace the management tool',
    steps: [commandStep(text, ['netplugctl', 'version'], { id: 'tool', isDone })],
  };
}

/** Nothing replaces BIRD by itself, because its sessions would end. */
function birdStage({ snapshot, target }: PlanFacts): UpgradeStage {
  const old = snapshot.pods.filter(
    ({ component, images: [image = ''] }) => component === BIRD_SET && releaseIn(image) !== target.release,
  );
  const command = `kubectl delete pod -n netplug-system -l app.kubernetes.io/name=${BIRD_SET} --field-selector spec.nodeName=NODE`;
  const step = commandStep(
    `replace BIRD on ${String(old.length)} nodes, one after the other, when it suits you: it works on until then`,
    command.split(' '),
    {
      id: 'replace-bird',
      isOptional: true,
      downtime: 'sessions of the node end and come back; peers that restart gracefully keep its routes meanwhile',
    },
  );
  return { title: 'Replace BIRD', steps: old.length === 0 ? [] : [step] };
}

function sidecarStage(facts: PlanFacts): UpgradeStage {
  const { snapshot, target } = facts;
  const { sidecars } = snapshot;
  const { release } = target;
  const old = sidecars.filter((each) => hasOlderSidecar(each, release) || each.unknownImage !== undefined);
  if (old.length === 0) return { title: 'Upgrade sidecars', steps: [] };
  return {
    title: 'Upgrade sidecars of the application layer',
    steps: [
      ...injectorSteps(facts),
      ...(old.some((each) => leftToUser(each, release) === undefined)
        ? [
            commandStep('restart workloads with an older sidecar', ['netplugctl', 'upgrade', 'sidecars'], {
              id: 'sidecars',
            }),
          ]
        : []),
      ...old.map((sidecar) => {
        const { kind, namespace, name, version = '' } = sidecar;
        // A namespace has no dot in its name.
        const id = `restart-${kind.toLowerCase()}-${namespace}.${name}`;
        const left = leftToUser(sidecar, release);
        if (left !== undefined)
          return commandStep(`have ${referenceKey(sidecar)} get the new sidecar: ${left.why}`, left.command, {
            id,
            isOptional: true,
          });
        return writeStep(facts, {
          act: 'restart',
          workload: referenceTo(kind, { namespace, name }),
          sidecar: version,
          id,
          isDone: false,
          // Only after the template was applied.
          isOptional: true,
          commands: [`kubectl rollout restart ${kind.toLowerCase()}/${name} -n ${namespace}`],
          downtime: 'as its own rolling update allows',
        });
      }),
    ],
  };
}

/** Each control plane gets the template of the target, as far as it is known to have another one. */
function injectorSteps({ snapshot, target: { release } }: PlanFacts): UpgradeStage['steps'] {
  const { mesh, meshState, tool } = snapshot;
  const command = (options: readonly string[]): readonly string[] => [
    'netplugctl',
    'mesh',
    'template',
    ...options,
    '|',
    'kubectl',
    'apply',
    '-f',
    '-',
  ];
  const injectors = meshState?.injectors ?? [];
  if (injectors.length === 0) {
    const text =
      mesh === undefined
        ? 'apply the injector template to the mesh, whose control plane is not in this cluster'
        : `apply the injector template for mesh version ${mesh}, which comes with the sidecar`;
    return [commandStep(text, command([]), { id: 'injector' })];
  }
  // The templates were compared with that of the tool.
  const isCurrent = ({ template }: InjectorFacts): boolean => tool === release && template.kind === 'current';
  return injectors
    .filter((each) => !isCurrent(each))
    .map((each) => {
      const text = `apply the injector template, which comes with the sidecar, to ConfigMap ${each.namespace}/${each.name}`;
      const id = injectors.length === 1 ? 'injector' : `injector-${each.namespace}.${each.revision ?? 'default'}`;
      return commandStep(text, command(placeOptions(each)), { id });
    });
}

/** The end of the procedure for host endpoints needs a person who reads the logs (map: up-hostendpoints-order). */
function finishStage({ snapshot, target }: PlanFacts): UpgradeStage {
  const { preparation, hostEndpoints } = snapshot.datastore;
  if (userCreated(hostEndpoints ?? []).length === 0) return { title: 'Finish host endpoints', steps: [] };
  const finish = commandStep(
    'read the kernel logs of the nodes, write the policies that are needed, then remove the temporary policy',
    ['netplugctl', 'host-endpoints', 'prepare-upgrade', '--undo'],
    { id: 'finish-host-endpoints' },
  );
  const migrate = commandStep(
    'replace host endpoints for all interfaces by automatic ones, if wanted',
    ['netplugctl', 'host-endpoints', 'migrate'],
    { id: 'migrate-host-endpoints', isOptional: true },
  );
  return {
    title: `Finish host endpoints, once all nodes have ${target.release}`,
    steps: [...(preparation.length > 0 ? [finish] : []), migrate],
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
