import type { ResourceStore } from '../../datastore/resource-store.ts';
import type { AllocationStore } from '../../datastore/allocation-store.ts';
import { reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { RetryPorts } from '../../base/back-off.ts';
import { ensureClusterId } from '../../datastore/keep-cluster-information.ts';
import { type LinkedPorts, restoreUsedAddresses } from '../restore-used-addresses.ts';
import { lostAddressProblem } from '../lost-address.ts';
import { type AddressConflict, type AddressInUse, addressInUseKey } from '../plan-assertion.ts';
import type { Allocation, HeldAddress } from '../../model/ip-block.ts';
import { interfaceKey, type NodeName } from '../../model/names.ts';
import { clusterIdIn, type DatastoreId } from './datastore-id.ts';
import type { LocalView } from './local-view.ts';

/** Time that other nodes have, after a rollback of the datastore, to record the addresses of their pods. */
const GRACE_MS = 5000;
/** Time after which addresses that another attachment held are looked at again. */
const CONTESTED_MS = 60_000;

export interface NodeAssertionPorts extends RetryPorts, LinkedPorts {
  readonly store: AllocationStore & ResourceStore;
  readonly log: Log;
  readonly view: LocalView;
  /** @throws store/replaced */
  readonly checkIdentity: (clusterId: string | undefined) => void;
  /** Called when the grace period for other nodes ends. */
  readonly onGraceEnd: () => void;
}

/**
 * Records again the addresses that pods of the node use and that a restored datastore has lost, before any address is
 * assigned from it.
 */
export class NodeAssertion {
  readonly #ports: NodeAssertionPorts;
  readonly #datastore: DatastoreId;
  readonly #node: NodeName;
  #rollbacks: number | undefined;
  /** End of the grace period, on the monotonic clock. */
  #graceEndsMs = 0;
  #conflicts: readonly AddressConflict[] = [];
  /** Those of them that had a link when the links were listed last. */
  #reported: readonly AddressConflict[] = [];
  /** Allocations that the cache has no more and that may be recorded again, by `addressInUseKey`. */
  #lost: ReadonlyMap<string, Allocation> = new Map();
  /** End of the last run, on the monotonic clock. */
  #endedMs = 0;

  constructor(
    ports: NodeAssertionPorts,
    { datastore, node }: { readonly datastore: DatastoreId; readonly node: NodeName },
  ) {
    this.#ports = ports;
    this.#datastore = datastore;
    this.#node = node;
  }

  /** Returns the rest of the grace period for other nodes; until it ends, this node assigns no new address. */
  graceMs(): number {
    return Math.max(0, this.#graceEndsMs - this.#ports.clock.monotonic());
  }

  /** Reports whether to run again because another attachment held what a pod of this node uses, a while ago. */
  isDue(): boolean {
    return this.#conflicts.length > 0 && this.#ports.clock.monotonic() - this.#endedMs >= CONTESTED_MS;
  }

  /** Returns what an administrator must act on: running pods of this node whose addresses others hold, a sentence each. */
  warnings(): readonly string[] {
    if (this.#conflicts.length > 0) this.#reported = this.#conflictsOfLinks() ?? this.#reported;
    return this.#reported.map(lostAddressProblem);
  }

  /** Returns undefined while the kernel does not list the links: a question about the state of the node must not fail for that. */
  #conflictsOfLinks(): readonly AddressConflict[] | undefined {
    try {
      const attached = this.#ports.listAttached();
      return this.#conflicts.filter(({ owner }) => attached.has(interfaceKey(owner)));
    } catch (cause) {
      this.#ports.log.debug('links not listed', { reason: reasonOf(cause) });
      return undefined;
    }
  }

  /** Remembers whose addresses the datastore has lost: nothing else of the node may name the pod of a link. */
  noteLost(lost: readonly HeldAddress[]): void {
    this.#lost = new Map([...this.#lost, ...byKey(lost)]);
  }

  /** Records what pods use and the datastore has lost. @throws store/* */
  async run(signal: AbortSignal): Promise<void> {
    const { store, log, view: local, checkIdentity } = this.#ports;
    const view = await store.readNodeView(this.#node, undefined, signal);
    checkIdentity(view.clusterId);
    if (view.clusterId === undefined) {
      checkIdentity(await ensureClusterId(this.#ports, clusterIdIn(this.#datastore), signal));
    }
    const hasFallen = this.#rollbacks !== undefined && view.rollbacks !== this.#rollbacks;
    const isRolledBack = hasFallen || local.isAheadOf(view, (version, than) => store.isOlder(version, than));
    const held = local.held();
    const lost = new Map([...this.#lost, ...byKey(held)]);
    const { asserted, conflicts } = await restoreUsedAddresses(
      { ...this.#ports, listAddressesInUse: async () => this.#listAddressesInUse(isRolledBack ? held : []) },
      {
        node: this.#node,
        known: () =>
          new Map([
            ...[...lost].map(([key, each]) => [key, this.#foundInUse(each, { isRolledBack })] as const),
            ...byKey(local.pending()),
          ]),
        pending: () => new Set(byKey(local.pending()).keys()),
      },
      signal,
    );
    this.#rollbacks = view.rollbacks;
    this.#conflicts = conflicts;
    this.#reported = conflicts;
    const contested = new Set(conflicts.map(addressInUseKey));
    this.#lost = new Map([...lost].filter(([key]) => contested.has(key)));
    this.#endedMs = this.#ports.clock.monotonic();
    if (asserted.length === 0 && !isRolledBack) return;
    log.error('datastore rolled back, addresses of pods recorded again', {
      recorded: asserted.length,
    });
    this.#startGrace(signal);
  }

  /**
   * Returns what records again that the attachment uses the address. A release that names the old id must not meet it, except
   * after a rollback: releases that are under way then are those of this node.
   */
  #foundInUse(lost: Allocation, { isRolledBack }: { readonly isRolledBack: boolean }): Allocation {
    const { considered: _, ...before } = lost;
    return { ...before, ...(isRolledBack ? {} : { id: this.#ports.random.id() }), chosenBy: 'living-link' };
  }

  /** Adds attachments without a netplug link, as under another main plugin, which only the cache has. */
  async #listAddressesInUse(remembered: readonly HeldAddress[]): Promise<readonly AddressInUse[]> {
    const linked = await this.#ports.listAddressesInUse();
    const keys = new Set(linked.map(addressInUseKey));
    const others = remembered.map(({ address, allocation }) => ({ address, owner: allocation }));
    return [...linked, ...others.filter((each) => !keys.has(addressInUseKey(each)))];
  }

  #startGrace(signal: AbortSignal): void {
    const { clock, onGraceEnd } = this.#ports;
    this.#graceEndsMs = clock.monotonic() + GRACE_MS;
    void clock.sleep(GRACE_MS, signal).then(onGraceEnd, () => undefined);
  }
}

function byKey(held: readonly HeldAddress[]): ReadonlyMap<string, Allocation> {
  return new Map(held.map(({ address, allocation }) => [addressInUseKey({ address, owner: allocation }), allocation]));
}
