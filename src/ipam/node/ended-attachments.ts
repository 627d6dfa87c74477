import type { RetryPorts } from '../../base/back-off.ts';
import { reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { AllocationStore } from '../../datastore/allocation-store.ts';
import { heldAddresses } from '../../model/ip-block.ts';
import { type Attachment, interfaceKey, type NodeName } from '../../model/names.ts';
import { isTunnelAddress } from '../../model/tunnel-attachment.ts';
import { attachmentOf } from '../../model/workload-endpoint.ts';
import { formatAddress } from '../../net/address.ts';
import { LeakCandidates } from '../garbage/leak-candidates.ts';
import { release } from '../release.ts';
import type { LinkedPorts } from '../restore-used-addresses.ts';

/** For how long an attachment must have been without a link, and the time between two passes. */
export const ENDED = { graceMs: 600_000, periodMs: 60_000 };
/** Passes that come later than this leave open what was the case in between. */
const GAP_PERIODS = 3;

export interface EndedPorts extends RetryPorts, LinkedPorts {
  readonly store: AllocationStore;
  readonly log: Log;
}

/**
 * Releases what attachments of this node hold whose link has been missing for the whole grace period: their DEL was lost. Only
 * the node knows that, because pods that the orchestrator has forgotten may run on. Of attachments that another main plugin has
 * made it knows nothing.
 */
export class EndedAttachments {
  readonly #ports: EndedPorts;
  readonly #node: NodeName;
  readonly #times: typeof ENDED;
  readonly #missing = new LeakCandidates();
  /** Networks whose links netplug makes on this node. */
  readonly #networks = new Set<string>();

  constructor(ports: EndedPorts, node: NodeName, times = ENDED) {
    this.#ports = ports;
    this.#node = node;
    this.#times = times;
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    let problem: string | undefined;
    for (;;) {
      try {
        await clock.sleep(this.#times.periodMs, signal);
        await this.pass(signal);
        problem = undefined;
      } catch (cause) {
        if (signal.aborted) return;
        if (problem === undefined) log.warning('ended attachments not looked for', { reason: reasonOf(cause) });
        problem = reasonOf(cause);
      }
    }
  }

  /** Returns `<containerId>/<ifName>` of the attachments that were released. @throws store/*, kernel/* */
  async pass(signal: AbortSignal): Promise<readonly string[]> {
    const { store, clock, log } = this.#ports;
    const view = await store.readNodeView(this.#node, undefined, signal);
    if (view.isLocked) return [];
    const { endpoints } = await store.listEndpoints(this.#node, signal);
    const linked = endpoints.filter(({ value }) => value.spec.interfaceName !== '');
    for (const { value } of linked) this.#networks.add(value.spec.network);
    const held = [...view.owned, ...view.borrowed]
      .flatMap(({ value }) => heldAddresses(value, (each) => each.node === this.#node && !isTunnelAddress(each)))
      .filter(({ allocation }) => this.#networks.has(allocation.network));
    const known: readonly Attachment[] = [
      ...linked.map(({ value }) => attachmentOf(value)),
      ...held.map(({ allocation }) => allocation),
    ];
    // After the records: an address is recorded before its link is made.
    const attached = this.#ports.listAttached();
    const used = new Set((await this.#ports.listAddressesInUse()).map(({ address }) => formatAddress(address)));
    const inUse = new Set([
      ...attached,
      ...held.flatMap(({ address, allocation }) => (used.has(formatAddress(address)) ? interfaceKey(allocation) : [])),
    ]);
    const missing = new Set(known.map(interfaceKey).filter((key) => !inUse.has(key)));
    const { graceMs, periodMs } = this.#times;
    const nowMs = clock.monotonic();
    this.#missing.observe(missing, { nowMs, gapMs: GAP_PERIODS * periodMs });
    const due = new Set([...missing].filter((key) => this.#missing.isDue(key, { nowMs, graceMs })));
    if (due.size === 0) return [];
    for (const before of endpoints)
      if (due.has(interfaceKey(attachmentOf(before.value))))
        await store.commit([{ kind: 'delete-endpoint', before }], signal);
    const which = (allocation: Attachment): boolean =>
      this.#networks.has(allocation.network) && due.has(interfaceKey(allocation));
    const freed = await release(this.#ports, { node: this.#node, which }, signal);
    log.info('ended attachments released', { attachments: due.size, addresses: freed.length });
    return [...due];
  }
}
