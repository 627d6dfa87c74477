import { setImmediate as nextTurn } from 'node:timers/promises';
import { isNetplugError, reasonOf } from '../../base/errors.ts';
import { forEachLimit } from '../../base/for-each-limit.ts';
import type { Controller, ControllerPorts, RunningController } from './controller.ts';
import type { Observed, ObservedChange } from './observed.ts';
import { isOvertaken } from '../../datastore/resource-errors.ts';

/** Writes at the same time. */
const PARALLEL = 16;
/** Records that a full run compares without a pause: about a millisecond. */
const AT_A_TIME = 200;

/** Changes and problems of the state of one key. */
export interface KeyPlan<C> {
  readonly changes: readonly C[];
  /** Differences that are left as they are, a sentence each. */
  readonly problems?: readonly string[];
}

/** A controller whose work falls into keys that do not depend on each other, such as names. */
export interface KeyedController<C extends { readonly kind: string }> extends Pick<
  Controller,
  'name' | 'feeds' | 'periodMs'
> {
  /** Returns the keys that the change concerns. */
  readonly keysOf: (change: ObservedChange) => readonly string[];
  /** Pure. Returns what must change for the key. */
  readonly plan: (key: string, observed: Observed) => KeyPlan<C>;
  /** Makes one change, which names the version that it expects. */
  readonly apply: (change: C, ports: ControllerPorts, signal: AbortSignal) => Promise<void>;
}

/** Plans and applies what has changed, and everything in full runs. */
export function keyedController<C extends { readonly kind: string }>(keyed: KeyedController<C>): Controller {
  return { ...keyed, start: (ports, observed) => new KeyedRun(keyed, ports, observed) };
}

class KeyedRun<C extends { readonly kind: string }> implements RunningController {
  readonly #keyed: KeyedController<C>;
  readonly #ports: ControllerPorts;
  readonly #observed: Observed;
  #due = new Set<string>();
  /** By key: each is logged once. */
  readonly #problems = new Map<string, readonly string[]>();

  constructor(keyed: KeyedController<C>, ports: ControllerPorts, observed: Observed) {
    this.#keyed = keyed;
    this.#ports = ports;
    this.#observed = observed;
  }

  note(changes: readonly ObservedChange[]): boolean {
    for (const change of changes) for (const key of this.#keyed.keysOf(change)) this.#due.add(key);
    return this.#due.size > 0;
  }

  async reconcile({ isFull }: { readonly isFull: boolean }, signal: AbortSignal): Promise<void> {
    if (isFull) await this.#compareAll(signal);
    const failures: unknown[] = [];
    try {
      await forEachLimit([...this.#due], PARALLEL, async (key) => this.#settle(key, failures, signal));
    } finally {
      this.#ports.metrics.setProblems(this.#keyed.name, [...this.#problems.values()].flat().length);
    }
    if (failures.length > 0) throw failures[0];
  }

  /** Makes every key due whose state differs from the desired one. Lets other work run in between. */
  async #compareAll(signal: AbortSignal): Promise<void> {
    const { feeds, keysOf } = this.#keyed;
    const compared = new Set<string>();
    let records = 0;
    for (const feed of feeds) {
      for (const [id, after] of this.#observed.all(feed)) {
        for (const key of keysOf({ feed, id, before: undefined, after })) {
          if (compared.has(key)) continue;
          compared.add(key);
          if (!this.#isSettled(key)) this.#due.add(key);
        }
        records += 1;
        if (records % AT_A_TIME > 0) continue;
        await nextTurn();
        signal.throwIfAborted();
      }
    }
  }

  #isSettled(key: string): boolean {
    const { changes, problems = [] } = this.#keyed.plan(key, this.#observed);
    return changes.length === 0 && problems.length === 0 && !this.#problems.has(key);
  }

  /** A key stays due until all of it is done. Throws only what every other key would meet as well. */
  async #settle(key: string, failures: unknown[], signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    // A change that is noted from here on makes the key due again.
    this.#due.delete(key);
    const { changes, problems = [] } = this.#keyed.plan(key, this.#observed);
    const refusals: string[] = [];
    try {
      for (const change of changes) {
        const refusal = await this.#apply(change, signal);
        if (refusal === undefined) this.#ports.metrics.countChange(this.#keyed.name, change.kind);
        else refusals.push(refusal);
      }
      this.#report(key, [...problems, ...refusals]);
    } catch (cause) {
      // What was observed is outdated; the watch brings the news, which make the key due again.
      if (isOvertaken(cause)) return;
      this.#due.add(key);
      if (signal.aborted || isNetplugError(cause, 'store/unavailable', 'store/not-leader', 'store/locked')) throw cause;
      failures.push(cause);
    }
  }

  /** Returns why the change is refused for what it is: it is tried again in the next full run, or when the key changes. */
  async #apply(change: C, signal: AbortSignal): Promise<string | undefined> {
    try {
      if (change.kind === 'delete') await this.#ports.confirmCluster(signal);
      await this.#ports.confirmUnlocked(signal);
      await this.#keyed.apply(change, this.#ports, signal);
      return undefined;
    } catch (cause) {
      if (isNetplugError(cause, 'resource/invalid')) return reasonOf(cause);
      throw cause;
    }
  }

  #report(key: string, problems: readonly string[]): void {
    const known = this.#problems.get(key) ?? [];
    for (const problem of problems.filter((each) => !known.includes(each)))
      this.#ports.log.warning('controller problem found', { controller: this.#keyed.name, problem });
    if (problems.length === 0) this.#problems.delete(key);
    else this.#problems.set(key, problems);
  }
}
