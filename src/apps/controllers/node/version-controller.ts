import { isNewerVersion } from '../../../base/compare-versions.ts';
import { VERSION } from '../../../base/version.ts';
import type { NodeControllerSettings } from '../../../config/controllers-settings.ts';
import type { FollowedRecord } from '../../../datastore/follow.ts';
import { keepClusterInformation } from '../../../datastore/keep-cluster-information.ts';
import { CLUSTER_INFORMATION_ID, clusterIdOf, isLocked } from '../../../model/cluster-information.ts';
import { showResourceId } from '../../../model/resource-id.ts';
import type { Controller, ControllerPorts, RunningController } from '../controller.ts';
import { type Observed, type ObservedChange, resourcesOfFeed } from '../observed.ts';
import { CLUSTER_RECORDS } from '../cluster-controller.ts';
import { NODE_RECORDS } from './node-controller.ts';
import { clusterVersions, UNKNOWN_VERSION } from '../../../model/cluster-versions.ts';

const NAME = 'node-versions';

/** Keeps the ClusterInformation, and reports agents that are older than what else runs in the cluster. */
export function versionController({ nodeRecords }: NodeControllerSettings): Controller {
  const types = [nodeRecords === 'own' ? 'kv' : 'orch'];
  return {
    name: NAME,
    feeds: [NODE_RECORDS, CLUSTER_RECORDS],
    start: (ports, observed) => new VersionRun(ports, observed, types),
  };
}

class VersionRun implements RunningController {
  readonly #ports: ControllerPorts;
  readonly #observed: Observed;
  readonly #types: readonly string[];
  /** Cluster id of the last record, with which a deleted record is restored. */
  #clusterId: string | undefined;
  #reported: readonly string[] = [];
  #isDue = false;

  constructor(ports: ControllerPorts, observed: Observed, types: readonly string[]) {
    this.#ports = ports;
    this.#observed = observed;
    this.#types = types;
  }

  /** Kubelets change their Nodes all the time. */
  note(changes: readonly ObservedChange[]): boolean {
    this.#isDue ||= changes.some(
      ({ feed, before, after }) => feed !== NODE_RECORDS || publishedIn(before) !== publishedIn(after),
    );
    return this.#isDue;
  }

  async reconcile(_: { readonly isFull: boolean }, signal: AbortSignal): Promise<void> {
    const { metrics, log } = this.#ports;
    const {
      newest = VERSION,
      agents,
      skews,
    } = clusterVersions(resourcesOfFeed(this.#observed, NODE_RECORDS, 'Node'), VERSION);
    metrics.cluster.setAgents(new Map([...agents].map(([version, nodes]) => [version, nodes.length])));
    const { problems, isKept } = this.#judge(agents.size > (agents.has(UNKNOWN_VERSION) ? 1 : 0));
    const own = isNewerVersion(newest, VERSION)
      ? [`the controllers are of release ${VERSION}, and ${newest} runs in the cluster`]
      : [];
    const all = [...skews, ...own, ...problems];
    metrics.setProblems(NAME, all.length);
    for (const problem of all.filter((each) => !this.#reported.includes(each)))
      log.warning('controller problem found', { controller: NAME, problem });
    this.#reported = all;
    if (isKept) await this.#keep(newest, signal);
    this.#isDue = false;
  }

  /** The agents remember the id of the cluster: a new one would be that of another cluster to them. */
  #judge(hasAgents: boolean): { readonly problems: readonly string[]; readonly isKept: boolean } {
    const record = this.#observed.find(CLUSTER_RECORDS, showResourceId(CLUSTER_INFORMATION_ID));
    if (record?.problem !== undefined) return { problems: [record.problem], isKept: false };
    const cluster =
      record?.kind === 'resource' && record.value?.kind === 'ClusterInformation' ? record.value : undefined;
    this.#clusterId = clusterIdOf(cluster) ?? this.#clusterId;
    if (isLocked(cluster)) return { problems: [], isKept: false };
    if (this.#clusterId !== undefined || !hasAgents) return { problems: [], isKept: true };
    const problem =
      'the ClusterInformation has no cluster id, and the controllers have never observed one: an agent restores it, with the id that it remembers';
    return { problems: [problem], isKept: false };
  }

  async #keep(version: string, signal: AbortSignal): Promise<void> {
    // A record that is made anew names the cluster from the start.
    await this.#ports.confirmCluster(signal);
    const id = this.#clusterId;
    const note = { version, types: this.#types, ...(id === undefined ? {} : { clusterId: id }) };
    await keepClusterInformation(this.#ports, note, signal);
  }
}

/** Returns the release that the agent of the node has published; undefined when there is no node. */
function publishedIn(record: FollowedRecord | undefined): string | undefined {
  if (record?.kind !== 'resource' || record.value?.kind !== 'Node') return undefined;
  return record.value.spec.netplugVersion ?? UNKNOWN_VERSION;
}
