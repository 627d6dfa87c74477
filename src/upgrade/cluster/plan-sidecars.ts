import { isNewerVersion } from '../../base/compare-versions.ts';
import { counted } from '../../base/counted.ts';
import { NetplugError } from '../../base/errors.ts';
import { referenceKey, referenceTo } from '../../kube/objects/reference.ts';
import type { Manifest } from '../../model/manifest.ts';
import type { Plan, Step } from '../../plans/plan.ts';
import { releaseIn } from '../../model/image-release.ts';
import { recordIn } from './objects-in.ts';
import { hasOlderSidecar, leftToUser } from './sidecars.ts';
import type { SidecarWorkload } from './snapshot.ts';
import type { RestartAction } from './upgrade-action.ts';

/** State on which the restart of workloads with an older sidecar depends. */
export interface SidecarFacts {
  readonly sidecars: readonly SidecarWorkload[];
  /** The workloads with an older sidecar, by `referenceKey`. */
  readonly workloads: ReadonlyMap<string, Manifest>;
  /** Templates from which control planes of the mesh inject the sidecar. */
  readonly templates: readonly InjectorTemplate[];
  readonly agents: readonly AgentRelease[];
}

export interface InjectorTemplate {
  /** ConfigMap that holds it, as `NAMESPACE/NAME`. */
  readonly configMap: string;
  /** Image of the sidecar; empty when the template names none. */
  readonly image: string;
}

export interface AgentRelease {
  readonly node: string;
  /** Undefined when neither its image nor its node says it. */
  readonly release: string | undefined;
}

/** Plans the restart of workloads with an older sidecar, and lists those that are left to the user. Pure. */
export function planSidecars(
  { sidecars, workloads, agents }: SidecarFacts,
  release: string,
  textOf: (action: RestartAction) => string,
): Plan<RestartAction> {
  const restarts: Step<RestartAction>[] = [];
  const left: Step<RestartAction>[] = [];
  for (const sidecar of sidecars) {
    const isOlder = hasOlderSidecar(sidecar, release);
    if (!isOlder && sidecar.unknownImage === undefined) continue;
    const { kind, namespace, name, version = '' } = sidecar;
    const action = { act: 'restart', workload: referenceTo(kind, { namespace, name }), sidecar: version } as const;
    const object = workloads.get(referenceKey(sidecar));
    const byUser = leftToUser(sidecar, release, object);
    if (byUser === undefined)
      restarts.push({
        ...action,
        kind: 'write',
        text: `${textOf(action)}${object === undefined ? '' : outageOf(object)}`,
      });
    else {
      const has = isOlder ? `sidecar ${version}` : 'sidecar of unknown release';
      const text = `${referenceKey(sidecar)}, ${has}: ${byUser.why}`;
      left.push({ ...action, kind: 'command', text, command: byUser.command });
    }
  }
  const unknown = agents.filter((agent) => agent.release === undefined);
  return {
    stages: [
      { title: `Restart ${counted(restarts.length, 'workload')}, until their pods are ready`, steps: restarts },
      { title: 'By you', steps: left },
    ],
    notes:
      restarts.length === 0 || unknown.length === 0
        ? []
        : [`the release of the agent is not known on ${nodesText(unknown)}: it must be ${release} or later`],
  };
}

function outageOf(workload: Manifest): string {
  const { type } = recordIn(recordIn(workload, 'spec'), 'strategy');
  return type === 'Recreate' ? ' (all its pods end before new ones start)' : '';
}

/** Returns why no workload may be restarted yet; undefined when all may. Pure. */
export function findSidecarRefusal({ templates, agents }: SidecarFacts, release: string): NetplugError | undefined {
  const older = agents.filter((agent) => agent.release !== undefined && isNewerVersion(release, agent.release));
  if (older.length > 0) {
    const found = [...new Set(older.map((agent) => agent.release ?? ''))].join(', ');
    return refused(`the agent has ${found} on ${nodesText(older)}, and ${release} or later is allowed`, {
      hint: 'Upgrade the agents first: "netplugctl upgrade apply"',
      facts: { nodes: older.map(({ node }) => node) },
    });
  }
  const remedy =
    'Give the mesh the output of "netplugctl mesh values", or run "netplugctl mesh template | kubectl apply -f -"';
  if (templates.length === 0)
    return refused(`no control plane of a mesh has the template "netplug", and one that names ${release} is wanted`, {
      hint: remedy,
    });
  const other = templates.find(({ image }) => releaseIn(image) !== release);
  if (other === undefined) return undefined;
  const { configMap, image } = other;
  const found = image === '' ? 'no image' : JSON.stringify(image);
  return refused(`the template "netplug" in ConfigMap ${configMap} names ${found}, and ${release} is wanted`, {
    hint: `${remedy}; with several control planes, for each --revision`,
    facts: { configMap, image },
  });
}

const NAMED = 3;

function nodesText(agents: readonly AgentRelease[]): string {
  const names = agents.map(({ node }) => node).toSorted();
  const more = names.length - NAMED;
  const listed = `${names.slice(0, NAMED).join(', ')}${more > 0 ? ` and ${String(more)} more` : ''}`;
  return `${names.length === 1 ? 'node' : 'nodes'} ${listed}`;
}

function refused(why: string, more: ConstructorParameters<typeof NetplugError>[2]): NetplugError {
  return new NetplugError('upgrade/refused', `Cannot restart workloads: ${why}`, more);
}
