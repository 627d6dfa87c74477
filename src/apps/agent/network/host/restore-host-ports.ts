import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../../../../base/clock.ts';
import { reasonOf } from '../../../../base/errors.ts';
import { forEachLimit } from '../../../../base/for-each-limit.ts';
import type { Log } from '../../../../base/log.ts';
import type { ChainedState } from '../../../../dataplane/chained-state.ts';
import type { HostLink } from '../../../../dataplane/kernel.ts';
import type { PluginCall } from '../../../../install/host/chained-plugins.ts';
import { podOf, type RuntimeRecord } from '../../../../install/host/runtime-records.ts';
import { type Attachment, handleOf } from '../../../../model/names.ts';
import type { Sentence } from '../../../../model/node-report.ts';
import {
  describeLeftPorts,
  describeLostPorts,
  describeUncalledPorts,
  hasRules,
  indexRules,
  isMapped,
  type PortClaim,
  type PortProblem,
  portClaimOf,
  type PortRules,
} from './port-claim.ts';

/** Time for which rules must be missing: the DEL of a pod removes them a moment before its link. */
const MISSING_MS = 1000;
/** Time after an ADD in which to look often: a DEL that had removed the rules before may still end. */
const WATCHED_MS = 30_000;
const LOOK_MS = 1000;
/** Pause before a call is repeated, which doubles each time. */
const RETRY = { firstMs: 10_000, maxMs: 3_600_000 } as const;
const CALLS_AT_ONCE = 4;

export interface HostPortPorts {
  readonly listLinks: () => readonly HostLink[];
  readonly chained: Pick<ChainedState, 'listPortRules'>;
  /** Returns what the runtime has recorded; undefined until the ADD of all plugins has succeeded. */
  readonly findRecord: (attachment: Attachment) => Promise<RuntimeRecord | undefined>;
  /** Returns a path of the network namespace behind the link; undefined when none is visible. @throws kernel/failed */
  readonly findNetns: (attachment: Attachment) => string | undefined;
  /** Calls the plugin. Returns why it failed, undefined after success. @throws when the signal aborts */
  readonly callPlugin: (call: Omit<PluginCall, 'binDir'>, signal: AbortSignal) => Promise<string | undefined>;
  readonly clock: Clock;
  readonly log: Log;
}

type ClaimOfLink = readonly [link: string, claim: PortClaim];

/** A call of the plugin that is due. */
interface Attempt {
  readonly dueMs: number;
  /** Pause after the next one. */
  readonly retryMs: number;
  /** What the last one did not do. */
  readonly problem?: PortProblem | undefined;
}

const FIRST: Attempt = { dueMs: Number.NEGATIVE_INFINITY, retryMs: RETRY.firstMs };

/**
 * Maps the host ports of living pods again when other programs have removed the rules of the plugin portmap, by an ADD of the
 * plugin, and removes those of pods that have gone, by a DEL. Reads rules only when a pod has host ports, and calls the plugin
 * only when they are not as they should be.
 */
export class HostPortRestorer {
  readonly #ports: HostPortPorts;
  readonly #onDue: () => void;
  /** By link: undefined for one without host ports. */
  #known: ReadonlyMap<string, PortClaim | undefined> = new Map();
  /** ADDs, by link whose rules are missing. */
  readonly #missing = new Map<string, Attempt>();
  /** DELs, by claim of a pod that has gone, until its ports are not mapped. */
  readonly #gone = new Map<PortClaim, Attempt>();
  /** Claims whose rules were all there once. */
  readonly #seen = new WeakSet<PortClaim>();
  #hasHidden = false;
  #unread: string | undefined;
  #watchedUntilMs = Number.NEGATIVE_INFINITY;
  #isWaiting = false;

  /** Calls `onDue` when it should reconcile again soon. */
  constructor(ports: HostPortPorts, onDue: () => void) {
    this.#ports = ports;
    this.#onDue = onDue;
  }

  /** A problem for each pod whose host ports are not as they should be. */
  get problems(): readonly Sentence[] {
    const called = [...this.#missing.values(), ...this.#gone.values()].map(({ problem }) => problem);
    return [this.#unread, ...called].filter((problem) => problem !== undefined);
  }

  /** What fails about ports is a problem, since it affects nothing else of pods. @throws kernel/failed about links */
  async reconcile(signal: AbortSignal): Promise<void> {
    const claims = await this.#readClaims();
    if (claims.size === 0 && this.#gone.size === 0) return;
    const rules = await this.#readRules(signal);
    if (rules === undefined) return;
    const due = [...claims].filter(([key, claim]) => this.#isDue(key, claim, rules));
    await forEachLimit(due, CALLS_AT_ONCE, async (each) => this.#map(each, rules, signal));
    if (due.length > 0) {
      // A pod may have gone during the ADD.
      await this.#readClaims();
      await this.#stopHidden(due, signal);
    }
    const mapped = new Set(due.map(([, claim]) => claim));
    await this.#unmapGone((claim) => mapped.has(claim) || hasRules(claim, rules), signal);
    this.#lookAgain(signal);
  }

  /** Returns the claims of pods that live, by link, and finds those of pods that have gone since it was called last. */
  async #readClaims(): Promise<ReadonlyMap<string, PortClaim>> {
    const before = this.#known;
    const known = new Map<string, PortClaim | undefined>();
    const living = new Set<string>();
    for (const link of this.#ports.listLinks()) {
      const { owner } = link;
      if (owner === undefined) continue;
      const key = `${String(link.index)} ${handleOf(owner)}`;
      living.add(containerOf(owner));
      const record = before.has(key) ? undefined : await this.#ports.findRecord(owner);
      if (before.has(key)) known.set(key, before.get(key));
      else if (record !== undefined) known.set(key, portClaimOf(record));
    }
    this.#known = known;
    for (const claim of before.values())
      if (claim !== undefined && !living.has(containerOf(claim.record))) this.#gone.set(claim, FIRST);
    for (const key of this.#missing.keys()) if (!known.has(key)) this.#missing.delete(key);
    return new Map([...known].flatMap(([key, claim]) => (claim === undefined ? [] : [[key, claim] as const])));
  }

  async #readRules(signal: AbortSignal): Promise<PortRules | undefined> {
    try {
      const rules = await this.#ports.chained.listPortRules(signal);
      this.#unread = undefined;
      return indexRules(rules);
    } catch (cause) {
      signal.throwIfAborted();
      this.#unread = `host ports of pods are not watched: ${reasonOf(cause)}`;
      return undefined;
    }
  }

  #isDue(key: string, claim: PortClaim, rules: PortRules): boolean {
    const nowMs = this.#ports.clock.monotonic();
    if (isMapped(claim, rules)) {
      this.#seen.add(claim);
      this.#missing.delete(key);
      return false;
    }
    const missing = this.#missing.get(key) ?? { ...FIRST, dueMs: nowMs + MISSING_MS };
    this.#missing.set(key, missing);
    return nowMs >= missing.dueMs;
  }

  async #map([key, claim]: ClaimOfLink, rules: PortRules, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    const before = this.#missing.get(key) ?? FIRST;
    const problem = await this.#tryMap(claim, rules, signal);
    this.#missing.set(key, this.#after(before, problem));
    this.#watchedUntilMs = clock.monotonic() + WATCHED_MS;
    const facts = { container: claim.record.containerId, pod: podOf(claim.record), ports: claim.mappings.length };
    if (problem === undefined) log.warning('host ports of a pod mapped again', facts);
    else if (!isDeepStrictEqual(problem, before.problem))
      log.error('host ports of a pod not mapped again', { ...facts, reason: problem.text });
  }

  /**
   * Calls no ADD again that has succeeded without rules that are visible, as those of iptables-legacy: each ends the tracked flows
   * of all to the UDP ports.
   */
  async #stopHidden(called: readonly ClaimOfLink[], signal: AbortSignal): Promise<void> {
    const rules = await this.#readRules(signal);
    if (rules === undefined) return;
    for (const [key, claim] of called) {
      const attempt = this.#missing.get(key);
      // What was there before has been removed once more.
      const isHidden = !this.#seen.has(claim) && !isMapped(claim, rules);
      if (attempt === undefined || attempt.problem !== undefined || !isHidden) continue;
      this.#missing.set(key, { ...attempt, dueMs: Number.POSITIVE_INFINITY });
      if (!this.#hasHidden) this.#ports.log.info('rules of host ports not visible', { pod: podOf(claim.record) });
      this.#hasHidden = true;
    }
  }

  /** Removes nothing as long as the ADD cannot be called. */
  async #tryMap(claim: PortClaim, rules: PortRules, signal: AbortSignal): Promise<PortProblem | undefined> {
    const { record } = claim;
    const netns = record.netns === '' ? this.#ports.findNetns(record) : record.netns;
    if (netns === undefined) return describeUncalledPorts(claim);
    // Of the two back ends of the plugin, one would add rules twice.
    const left = hasRules(claim, rules) ? await this.#call('DEL', claim, signal) : undefined;
    const reason = left ?? (await this.#call('ADD', { ...claim, record: { ...record, netns } }, signal));
    return reason === undefined ? undefined : describeLostPorts(claim, reason);
  }

  /**
   * Unmaps the ports of pods that have gone. Their own DEL has ended: when rules are left it had failed, or had ended before an ADD
   * of ours.
   */
  async #unmapGone(isLeft: (claim: PortClaim) => boolean, signal: AbortSignal): Promise<void> {
    const nowMs = this.#ports.clock.monotonic();
    for (const claim of this.#gone.keys()) if (!isLeft(claim)) this.#gone.delete(claim);
    const due = [...this.#gone].filter(([, { dueMs }]) => nowMs >= dueMs);
    await forEachLimit(due, CALLS_AT_ONCE, async ([claim, attempt]) => {
      const reason = await this.#call('DEL', claim, signal);
      if (reason === undefined) this.#gone.delete(claim);
      else this.#gone.set(claim, this.#after(attempt, describeLeftPorts(claim, reason)));
    });
  }

  #after({ retryMs }: Attempt, problem: PortProblem | undefined): Attempt {
    const dueMs = this.#ports.clock.monotonic() + retryMs;
    return { dueMs, retryMs: Math.min(2 * retryMs, RETRY.maxMs), problem };
  }

  async #call(
    command: PluginCall['command'],
    { record, plugin }: PortClaim,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    return this.#ports.callPlugin({ command, record, plugin }, signal);
  }

  #lookAgain(signal: AbortSignal): void {
    const { clock } = this.#ports;
    const nowMs = clock.monotonic();
    const isSoon =
      nowMs < this.#watchedUntilMs || [...this.#missing.values()].some(({ dueMs }) => dueMs <= nowMs + MISSING_MS);
    if (!isSoon || this.#isWaiting) return;
    this.#isWaiting = true;
    const look = (): void => {
      this.#isWaiting = false;
      this.#onDue();
    };
    void clock.sleep(LOOK_MS, signal).then(look, () => undefined);
  }
}

function containerOf({ network, containerId }: Pick<Attachment, 'network' | 'containerId'>): string {
  return `${containerId}/${network}`;
}
