import { isNetplugError } from '../../base/errors.ts';
import type { Clock } from '../../base/clock.ts';
import type { ObjectStage } from '../../install/cluster/cluster-objects.ts';
import { AGENT_SET, systemObject } from '../../install/cluster/names.ts';
import { TYPHA } from '../../model/typha.ts';
import { connectedAgents, deleteServerLeases, listServers } from '../../install/cluster/server-leases.ts';
import { labelIn } from '../../kube/objects/content.ts';
import { objectName } from '../../kube/objects/reference.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import type { NodeState } from '../../kube/status/node-state.ts';
import { workloadState } from '../../kube/status/workload-state.ts';
import type { InstallationSpec } from '../../model/installation.ts';
import type { InstallationStatus } from '../../model/installation-status.ts';
import { countServers, type ServerCount, serverDemand, serverShortage } from './count-servers.ts';
import type { Inventory } from './inventory.ts';
import { digestOf, type ObjectApplier } from './object-applier.ts';
import { holdOfServers, orderFanOut } from './order-fan-out.ts';

export interface FanOutPorts {
  readonly api: OrchApi;
  readonly applier: ObjectApplier;
  readonly clock: Clock;
  readonly listPods: (signal: AbortSignal) => Promise<readonly ApiObject[]>;
}

const SERVERS = systemObject('Deployment', TYPHA);
const AGENTS = systemObject('DaemonSet', AGENT_SET);

/** How an installation has the servers of the fan-out: their number, when they are replaced, and what they leave. */
export class FanOut {
  readonly #ports: FanOutPorts;
  /** Undefined while there are none. */
  #count: ServerCount | undefined;
  /** Whether servers that are gone may have left Leases. */
  #hasLeases = true;

  constructor(ports: FanOutPorts) {
    this.#ports = ports;
  }

  /** Returns the number of servers for these nodes, and why it is smaller than wanted; undefined without a fan-out. @throws store/* */
  async count(
    typha: InstallationSpec['typha'],
    nodes: readonly NodeState[],
    signal: AbortSignal,
  ): Promise<{ readonly replicas: number; readonly shortage: string | undefined } | undefined> {
    if (typha?.mode !== 'Enabled') {
      this.#count = undefined;
      return undefined;
    }
    const live = this.#count === undefined ? await this.#ports.applier.read(SERVERS, signal) : undefined;
    const state = live && workloadState(live, 'following');
    const before = this.#count ?? (state && { replicas: state.desired });
    const demand = serverDemand(nodes, typha);
    this.#count = countServers(before, demand, this.#ports.clock.monotonic());
    return { replicas: this.#count.replicas, shortage: serverShortage(demand) };
  }

  /** Returns the stages in the order in which they are applied, and why that of the servers must wait. @throws store/* */
  async order(
    stages: readonly ObjectStage[],
    { release, inventory }: { readonly release: string; readonly inventory: Inventory },
    signal: AbortSignal,
  ): Promise<{ readonly stages: readonly ObjectStage[]; readonly holds: ReadonlyMap<'typha', string> }> {
    const holds = new Map<'typha', string>();
    const own = stages.find(({ stage }) => stage === 'typha')?.objects ?? [];
    const areApplied = own.every((object) => inventory.get(objectName(object))?.digest === digestOf(object));
    if (areApplied) return { stages, holds };
    const { applier, listPods, clock } = this.#ports;
    const servers = await applier.read(SERVERS, signal);
    if (servers === undefined) return { stages, holds };
    const agents = await applier.read(AGENTS, signal);
    const hold = holdOfServers({ agents, pods: await listPods(signal) }, { release, now: clock.now() });
    if (hold !== undefined) holds.set('typha', hold);
    return { stages: orderFanOut(stages, servers, release), holds };
  }

  /** Returns what the status says of the servers. @throws store/unavailable */
  async status(nodes: number, signal: AbortSignal): Promise<InstallationStatus['typha']> {
    this.#hasLeases = true;
    const replicas = this.#count?.replicas ?? 0;
    const servers = await unlessRefused(async () => listServers(this.#ports.api, signal));
    return { replicas, ...(servers === undefined ? {} : { connected: connectedAgents(servers) }), nodes };
  }

  /** Deletes what servers have left, once no pod of theirs is left. @throws store/unavailable */
  async forget(signal: AbortSignal): Promise<void> {
    if (!this.#hasLeases) return;
    await unlessRefused(async () => {
      const pods = await this.#ports.listPods(signal);
      if (pods.some((pod) => labelIn(pod, 'app.kubernetes.io/name') === TYPHA)) return;
      await deleteServerLeases(this.#ports.api, signal);
      this.#hasLeases = false;
    });
  }
}

/** An operator with the roles of an older release does its other work. */
async function unlessRefused<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (cause) {
    if (!isNetplugError(cause, 'store/refused')) throw cause;
    return undefined;
  }
}
