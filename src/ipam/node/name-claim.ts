import { type Clock, stopwatch, timeLimit } from '../../base/clock.ts';
import { NetplugError, reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { NameStore } from '../../datastore/node-status-store.ts';
import type { ResourceStore } from '../../datastore/resource-store.ts';
import type { NodeName } from '../../model/names.ts';
import type { NodeMachine } from '../../model/node-report.ts';

/** Times of a claim, in milliseconds. */
export const NAME_TIMES = {
  /** Interval at which the machine renews its claim. */
  renewMs: 60_000,
  /** Interval at which a renewal that failed is tried again. */
  retryMs: 10_000,
  /** Time for which a renewal permits writes: shorter than the wait of any other machine. */
  validMs: 150_000,
  /** Time without a renewal after which a machine with the same state folder takes the name: one made from an image, or rebooted. */
  sameStateMs: 200_000,
  /** Time without a renewal after which any other machine takes the name. */
  lapseMs: 600_000,
  /** Two looks that are further apart say nothing about the time between them. */
  gapMs: 30_000,
} as const;

/** What is known of this machine, as other machines read it. */
export type MachineIdentity = Omit<NodeMachine, 'renewedAt'>;

export interface NameClaimPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: NameStore & Pick<ResourceStore, 'findResource'>;
}

/**
 * The claim of this machine to the name of its node. Two machines of one name would release and assign the addresses of each
 * other's pods, so that the agent neither reads nor writes anything of the node before it has the claim, and renews it while
 * it runs. The kernels of two machines share no clock: the wait for another machine counts from the first look of this one.
 */
export class NameClaim {
  readonly #ports: NameClaimPorts;
  readonly #node: NodeName;
  readonly #machine: MachineIdentity;
  readonly #times: typeof NAME_TIMES;
  /** Returns how long ago the last successful claim began. */
  #ageMs = (): number => Number.POSITIVE_INFINITY;
  /** Whether this machine has had the name in this process. */
  #isHeld = false;
  /** Whether the name was this machine's when it was read last. */
  #isOwn = false;
  #lost: NetplugError | undefined;
  /** The claim of another machine as it was read last, since when it has been the same, and when it was read. */
  #other: { readonly text: string; readonly sinceMs: number; readonly readMs: number } | undefined;

  constructor(
    ports: NameClaimPorts,
    { node, machine }: { readonly node: NodeName; readonly machine: MachineIdentity },
    times: typeof NAME_TIMES = NAME_TIMES,
  ) {
    this.#ports = ports;
    this.#node = node;
    this.#machine = machine;
    this.#times = times;
  }

  /**
   * Claims the name, or renews the claim. A machine that has lost its claim never gets it back in this process: another one
   * has begun to use the addresses. @throws agent/name-taken, store/*
   */
  async hold(signal: AbortSignal): Promise<void> {
    if (this.#lost !== undefined) throw this.#lost;
    const { clock, store, log } = this.#ports;
    const startMs = clock.monotonic();
    const ageMs = stopwatch(clock);
    const wasHeld = this.#isHeld;
    const machine = { ...this.#machine, renewedAt: new Date(clock.now()).toISOString() };
    let replaced: NodeMachine | undefined;
    this.#isOwn = false;
    const mayReplace = (holder: NodeMachine): boolean => {
      const isSame = isSameMachine(holder, this.#machine);
      this.#isOwn = isSame;
      replaced = isSame ? undefined : holder;
      return isSame || (!wasHeld && this.#hasLapsed(holder, startMs));
    };
    const holder = await store.claimName(this.#node, { machine, mayReplace }, signal);
    if (holder !== undefined) {
      const taken = nameTaken(this.#node, { holder, address: await this.#addressOf(signal) });
      if (wasHeld) this.#lost = taken;
      throw taken;
    }
    if (replaced !== undefined)
      log.warning('node name taken over', { from: replaced.hostName, renewedAt: replaced.renewedAt });
    this.#isHeld = true;
    this.#ageMs = ageMs;
  }

  /**
   * Claims the name. Also returns when the name is this machine's and cannot be renewed now, as in a datastore that takes no
   * writes: the agent may read and apply what there is. @throws as `hold`
   */
  async confirm(signal: AbortSignal): Promise<void> {
    try {
      await this.hold(signal);
    } catch (cause) {
      if (!this.#isOwn) throw cause;
      this.#isHeld = true;
      this.#ports.log.warning('node name not renewed', { reason: reasonOf(cause) });
    }
  }

  /** Returns while the claim permits writes, and renews it first when that is no longer certain. @throws as `hold` */
  async assure(signal: AbortSignal): Promise<void> {
    if (this.#lost !== undefined || this.#ageMs() >= this.#times.validMs) await this.hold(signal);
  }

  /** Renews the claim until the signal aborts. @throws agent/name-taken when another machine has it */
  async keep(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    const { renewMs, retryMs } = this.#times;
    for (let failures = 0; ;) {
      await clock.sleep(failures === 0 ? renewMs : retryMs, signal).catch(() => undefined);
      if (signal.aborted) return;
      try {
        using limit = timeLimit(retryMs);
        await this.hold(AbortSignal.any([signal, limit.signal]));
        failures = 0;
      } catch (cause) {
        // A write may have found it out first.
        if (this.#lost !== undefined) throw this.#lost;
        failures += 1;
        if (failures === 1 && !signal.aborted) log.warning('node name not renewed', { reason: reasonOf(cause) });
      }
    }
  }

  /** Reports whether the other machine has not renewed its claim for so long that it is gone. */
  #hasLapsed(holder: NodeMachine, nowMs: number): boolean {
    const text = JSON.stringify(holder);
    const last = this.#other;
    const isWatched = last?.text === text && nowMs - last.readMs <= this.#times.gapMs;
    const sinceMs = isWatched ? last.sinceMs : nowMs;
    this.#other = { text, sinceMs, readMs: nowMs };
    const { sameStateMs, lapseMs } = this.#times;
    return nowMs - sinceMs >= (isUnproven(holder, this.#machine) ? sameStateMs : lapseMs);
  }

  /** What the other machine has published of itself; undefined also when that cannot be read. */
  async #addressOf(signal: AbortSignal): Promise<string | undefined> {
    try {
      const node = await this.#ports.store.findResource({ kind: 'Node', name: this.#node }, signal);
      return node?.spec.bgp?.ipv4Address ?? node?.spec.bgp?.ipv6Address;
    } catch (cause) {
      this.#ports.log.debug('node not read', { reason: reasonOf(cause) });
      return undefined;
    }
  }
}

/**
 * Reports whether both are the same machine. What lasts until the next boot proves it for agents that follow each other. Across boots,
 * also when the machine was installed again, its network cards and serial number prove it, of which some may have been added or removed;
 * a single one proves nothing where both have others, since virtual machines can have one MAC address in common. Machine id and state
 * folder prove nothing: an image has both.
 */
export function isSameMachine(one: MachineIdentity, other: MachineIdentity): boolean {
  if (one.runs.some((run) => other.runs.includes(run))) return true;
  const [ones, others] = [new Set(one.hardware), new Set(other.hardware)];
  return ones.size > 0 && others.size > 0 && (ones.isSubsetOf(others) || others.isSubsetOf(ones));
}

/**
 * Refuses a call without an agent on a machine whose name another one has: its agent would take the address from the pod again.
 * The clocks of the machines may differ, which moves the end of the refusal. @throws agent/name-taken, store/*
 */
export async function assertName(
  store: Pick<ResourceStore, 'findResource'>,
  {
    node,
    machine,
    nowMs,
  }: { readonly node: NodeName; readonly machine: () => MachineIdentity; readonly nowMs: number },
  signal: AbortSignal,
): Promise<void> {
  const report = await store.findResource({ kind: 'NodeReport', name: node }, signal);
  const holder = report?.spec.machine;
  if (holder === undefined || nowMs - Date.parse(holder.renewedAt) >= NAME_TIMES.lapseMs) return;
  if (!isSameMachine(holder, machine())) throw nameTaken(node, { holder, address: undefined });
}

/** Reports whether it may be the same machine, which has booted and has no hardware to tell it from a copy. */
function isUnproven(one: MachineIdentity, other: MachineIdentity): boolean {
  const isEitherBare = (one.hardware ?? []).length === 0 || (other.hardware ?? []).length === 0;
  return one.id === other.id && isEitherBare;
}

function nameTaken(
  node: NodeName,
  { holder: { hostName, renewedAt }, address }: { readonly holder: NodeMachine; readonly address: string | undefined },
): NetplugError {
  const where = address === undefined ? '' : `, address ${address}`;
  return new NetplugError(
    'agent/name-taken',
    `Cannot serve node "${node}": another machine has this name (host name "${hostName}"${where}, last heard of at ${renewedAt})`,
    {
      hint: `Give each machine a NODENAME of its own. If the other machine is gone, the name is free at once after "netplugctl node remove ${node}" with records in etcd, or "kubectl delete node ${node}" with records in the API; without it this machine takes the name over after ${String(NAME_TIMES.lapseMs / 60_000)} minutes`,
      facts: { node, hostName, address, renewedAt },
    },
  );
}
