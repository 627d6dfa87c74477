import type { Clock } from '../../../../base/clock.ts';
import { reasonOf } from '../../../../base/errors.ts';
import type { Log } from '../../../../base/log.ts';
import { Trigger } from '../../../../base/trigger.ts';
import type { FlowTable } from '../../../../dataplane/flow-table.ts';
import type { HostNetwork } from '../../../../dataplane/host-network.ts';
import { type FilterChange, hasChanged, type TableFilter } from '../../../../dataplane/policy-filter.ts';
import { formatAddress } from '../../../../net/address.ts';
import { type NatInput, renderNat } from '../../../../routing/nat-table.ts';
import type { RoutedPool } from '../../../../routing/pool-modes.ts';
import { endsOfChange, staleFlows } from '../../../../routing/stale-flows.ts';
import {
  bothChanges,
  bothTranslations,
  formatTranslations,
  isNoChange,
  NO_CHANGE,
  readTranslations,
  translationChange,
  type TranslationRecord,
  translationsOf,
} from '../../../../routing/translation-change.ts';
import { TUNNELS } from '../../../../routing/tunnels.ts';
import type { OwnTunnel } from './reconcile-tunnels.ts';

/** The shortest pause between two lists of flows, and how many times longer than a list it is. */
const PAUSE = { leastMs: 300, factor: 10 } as const;
/** After a failure, which is usually a kernel without the netlink interface of connection tracking. */
const RETRY_MS = 10_000;

export interface NatPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly filter: () => TableFilter;
  /** Opens the table. @throws kernel/failed */
  readonly flowTable: () => Pick<FlowTable, 'find' | 'end'>;
  readonly host: Pick<HostNetwork, 'listAddresses'>;
  /** What the node translates, kept for the agent after this one until the node reboots. */
  readonly translations: { readonly load: () => string; readonly save: (text: string) => Promise<void> };
}

/**
 * Keeps the table of address translation in its desired state, and ends the tracked flows that it would translate otherwise now:
 * the kernel asks the table only about the first packet of a flow, and each packet renews the flow. Flows whose translation
 * stays go on.
 */
export class NatReconciler {
  readonly #ports: NatPorts;
  readonly #due = new Trigger();
  /** As the table is; both states after a write that failed. Undefined until it was read. */
  #before: TranslationRecord | undefined;
  /** As flows may be translated, and as it is saved. */
  #record: TranslationRecord | undefined;
  #inForce: NatInput | undefined;
  /** Whose flows must be examined. */
  #change = NO_CHANGE;
  #saved: string | undefined;
  #problem: string | undefined;

  constructor(ports: NatPorts) {
    this.#ports = ports;
  }

  /** A sentence when flows with a former translation cannot be ended. */
  get problems(): readonly string[] {
    return this.#problem === undefined ? [] : [notEnded(this.#problem)];
  }

  /** @throws kernel/failed */
  async reconcile(input: NatInput, signal: AbortSignal): Promise<'repaired' | void> {
    this.#record ??= readTranslations(this.#ports.translations.load());
    const before = (this.#before ??= this.#record);
    const after = translationsOf(input);
    const change = translationChange(before, after);
    const isChanged = !isNoChange(change);
    if (isChanged) {
      this.#before = bothTranslations(before, after);
      // Before the kernel changes, so that the agent after a crash knows whose flows to examine.
      await this.#keep(bothTranslations(this.#record, after));
    }
    const written = await reconcileNat(this.#ports.filter(), input, signal);
    this.#inForce = input;
    if (isChanged) this.#before = after;
    // Another program has changed the table, if it is not what this process wrote.
    const isForeign = !isChanged && hasChanged(written);
    if (isForeign) await this.#keep(bothTranslations(this.#record, after));
    this.#change = bothChanges(this.#change, { ...change, isOfAll: change.isOfAll || isForeign });
    if (!isNoChange(this.#change)) this.#due.set();
    if (isForeign) return 'repaired';
  }

  /** Ends flows whenever a change requires it, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    while (!signal.aborted) {
      await this.#due.wait(signal);
      if (signal.aborted) return;
      this.#due.clear();
      const startMs = clock.monotonic();
      let pauseMs = RETRY_MS;
      try {
        await this.#endStale();
        pauseMs = Math.max(PAUSE.leastMs, (clock.monotonic() - startMs) * PAUSE.factor);
        this.#problem = undefined;
      } catch (cause) {
        this.#due.set();
        if (this.#problem !== reasonOf(cause))
          log.warning('flows with a former translation not ended', { reason: reasonOf(cause) });
        this.#problem = reasonOf(cause);
      }
      await clock.sleep(pauseMs, signal).catch(() => undefined);
    }
  }

  async #endStale(): Promise<void> {
    const [change, input, before] = [this.#change, this.#inForce, this.#before];
    if (input === undefined) return;
    this.#change = NO_CHANGE;
    try {
      const { flowTable, host, log } = this.#ports;
      const links = await host.listAddresses();
      const hostAddresses = new Set(links.flatMap(({ addresses }) => addresses.map(formatAddress)));
      const isStale = staleFlows(input, change, hostAddresses);
      const stale = await flowTable().find(change.isOfAll ? 'all' : endsOfChange(change), isStale);
      const ended = await flowTable().end(stale);
      if (ended > 0) log.info('flows with a former translation ended', { flows: ended });
    } catch (cause) {
      this.#change = bothChanges(change, this.#change);
      throw cause;
    }
    // The record of a later change stands until its flows have ended.
    if (isNoChange(this.#change) && this.#before === before) await this.#keep(translationsOf(input));
  }

  /** What cannot be saved costs the flows that a change made stale when the agent crashes before it has ended them. */
  async #keep(record: TranslationRecord): Promise<void> {
    this.#record = record;
    const text = formatTranslations(record);
    if (text === this.#saved) return;
    try {
      await this.#ports.translations.save(text);
      this.#saved = text;
    } catch (cause) {
      this.#ports.log.warning('translations not saved', { reason: reasonOf(cause) });
    }
  }
}

/** Returns what the pools, the floating addresses of the pods and the tunnels of the node want of its translation. */
export function natInput(
  pools: readonly RoutedPool[],
  floating: NatInput['floating'],
  tunnels: readonly OwnTunnel[],
): NatInput {
  return {
    natPools: pools.filter(({ pool }) => pool.spec.natOutgoing).map(({ cidr }) => cidr),
    allPools: pools.map(({ cidr }) => cidr),
    floating,
    tunnels: tunnels.map(({ kind }) => TUNNELS[kind].device),
  };
}

/** Brings the table of address translation to the desired state. Creates none on a host where nothing is translated. */
export async function reconcileNat(filter: TableFilter, input: NatInput, signal: AbortSignal): Promise<FilterChange> {
  const table = renderNat(input);
  if (table.isIdle && !(await filter.has(table.name, signal))) return { chains: 0, sets: 0, elements: 0 };
  return filter.apply(table, { signal, reread: true });
}

function notEnded(reason: string): string {
  return `nat: flows keep a former translation: ${reason}`;
}
