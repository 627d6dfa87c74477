import { isNewerRelease, plainVersion } from '../../base/compare-versions.ts';
import type { ObjectStage } from '../../install/cluster/cluster-objects.ts';
import { AGENT_SET } from '../../install/cluster/names.ts';
import { HOLD_AGENTS } from '../../model/installation.ts';
import { labelIn } from '../../kube/objects/content.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { workloadState } from '../../kube/status/workload-state.ts';
import { workloadStatus } from './workload-status.ts';

const RELEASE = 'app.kubernetes.io/version';

/** The agents as they run. */
export interface RunningAgents {
  readonly agents: ApiObject | undefined;
  /** Pods of netplug. */
  readonly pods: readonly ApiObject[];
}

/** Returns the stages in the order in which a server always serves the agents: on the way back, it is replaced after them. Pure. */
export function orderFanOut(
  stages: readonly ObjectStage[],
  servers: ApiObject,
  release: string,
): readonly ObjectStage[] {
  if (!isNewerRelease(labelIn(servers, RELEASE) ?? '', release)) return stages;
  const isServers = ({ stage }: ObjectStage): boolean => stage === 'typha';
  return [...stages.filter((stage) => !isServers(stage)), ...stages.filter(isServers)];
}

/**
 * Returns why running servers must not be changed to those of the release yet: agents are being replaced, or are of a release that
 * these would not serve. Pure.
 */
export function holdOfServers(
  { agents, pods }: RunningAgents,
  { release, now }: { readonly release: string; readonly now: number },
): string | undefined {
  if (agents !== undefined && isRollingOut(agents, pods, now)) return `waits until ${AGENT_SET} is rolled out`;
  const old = agentReleases(pods).find((each) => !servesAgent(release, each));
  if (old === undefined) return undefined;
  return `waits for agents of ${old}, which servers of ${release} do not serve: they are replaced by the roll-out of ${AGENT_SET}, or while the annotation ${HOLD_AGENTS} is set, when their pods are deleted`;
}

/** A roll-out that has stopped at a node does not go on by itself: what it waits for may come with the change. */
function isRollingOut(agents: ApiObject, pods: readonly ApiObject[], now: number): boolean {
  const state = workloadState(agents, 'following');
  if (state === undefined || (state.isObserved && state.updated >= state.desired)) return false;
  return workloadStatus(AGENT_SET, { object: agents, pods, now }).component.state !== 'Failing';
}

function agentReleases(pods: readonly ApiObject[]): readonly string[] {
  return pods
    .filter((pod) => labelIn(pod, 'app.kubernetes.io/name') === AGENT_SET)
    .flatMap((pod) => labelIn(pod, RELEASE) ?? []);
}

/** A server serves agents of its own minor release, of the one before and of the one after. */
function servesAgent(server: string, agent: string): boolean {
  const [[ours, our], [theirs, their]] = [minorOf(server), minorOf(agent)];
  return ours === theirs && Math.abs(our - their) <= 1;
}

function minorOf(release: string): readonly [major: number, minor: number] {
  const [major = 0, minor = 0] = plainVersion(release).split('.').map(Number);
  return [major, minor];
}
