import { isDeepStrictEqual } from 'node:util';
import { BackOff, keepRunning, type RetryPorts } from '../../base/back-off.ts';
import { untilBeat } from '../../base/clock.ts';
import { reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { Trigger } from '../../base/trigger.ts';
import type { FollowStore } from '../../datastore/follow.ts';
import type { NodeStatusStore } from '../../datastore/node-status-store.ts';
import { unversioned } from '../../datastore/stored-resource.ts';
import type { NodeName } from '../../model/names.ts';
import { NODE_CONDITIONS } from '../../model/notes.ts';
import {
  type NodeCondition,
  type NodeFailures,
  readyCondition,
  unavailableCondition,
} from '../../model/node-readiness.ts';

/** Time for which the node must fail before a condition says so. */
const FAILURE_GRACE_MS = 30_000;
/** Interval at which unchanged conditions are reported again: another program may have written them. */
const RENEW_MS = 60_000;
/** The shortest time between two writes while only messages change. */
const TEXT_PAUSE_MS = 10_000;
/** Interval at which the node is observed: while something is wrong, and otherwise. */
const BACK_OFF = { firstMs: 1000, maxMs: 10_000, maxRefusedMs: 30_000 };
const LOOK_MS = { failing: 1000, serving: 5000 };

/** What the agent observes of its node. */
export interface NodeObservation extends NodeFailures {
  /** Why the node is not connected with other nodes, a sentence each; undefined while the agent does not know, or another plugin connects them. */
  readonly disconnections: readonly string[] | undefined;
}

export interface ConditionPorts extends RetryPorts {
  readonly log: Log;
  readonly store: () => Pick<NodeStatusStore, 'reportConditions'> & FollowStore;
  readonly observe: () => Promise<NodeObservation>;
}

/**
 * Reports the state of the node as conditions of the orchestrator's Node: a recovery at once, a failure after 30 s, and
 * everything again each minute and when the Node has changed or is another one.
 */
export class NodeConditions {
  readonly #ports: ConditionPorts;
  readonly #node: NodeName;
  readonly #early = new Trigger();
  /** The last report, and when it was made by the monotonic clock. */
  #reported: { readonly conditions: readonly NodeCondition[]; readonly atMs: number } | undefined;
  /** Since when each condition is a failure, by the monotonic clock. */
  readonly #failingSinceMs = new Map<NodeCondition['type'], number>();
  /** Whether the Node has changed since the last report. */
  #isOutdated = false;
  #problem: string | undefined;

  constructor(ports: ConditionPorts, node: NodeName) {
    this.#ports = ports;
    this.#node = node;
  }

  /** Returns why the conditions could not be reported, as a list of at most one sentence. */
  problems(): readonly string[] {
    return this.#problem === undefined ? [] : [this.#problem];
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#watchNode(signal), this.#reportUntil(signal)]);
  }

  /** Makes the next report reach the datastore. */
  renew(): void {
    this.#isOutdated = true;
    this.#early.set();
  }

  /** Observes the node once, and reports what is due. Returns whether the node serves. @throws store/*, resource/* */
  async report(signal: AbortSignal): Promise<boolean> {
    const { clock, store, observe } = this.#ports;
    const observed = await observe();
    const ready = readyCondition(observed);
    const all = [
      ...(observed.disconnections === undefined ? [] : [unavailableCondition(observed.disconnections)]),
      ready,
    ];
    const conditions = all.filter((each) => this.#isDue(each));
    const isServing = all.every((each) => !isFailure(each));
    if (signal.aborted || conditions.length === 0 || !this.#mustReport(conditions)) return isServing;
    this.#isOutdated = false;
    await store()
      .reportConditions(this.#node, conditions, signal)
      .catch((cause: unknown) => {
        // The datastore may be the cause of the failure. Once it is back, the node has the whole time to recover.
        this.#failingSinceMs.clear();
        this.#isOutdated = true;
        throw cause;
      });
    this.#reported = { conditions, atMs: clock.monotonic() };
    return isServing;
  }

  async #reportUntil(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    const backOff = new BackOff(this.#ports, BACK_OFF);
    while (!signal.aborted) {
      this.#early.clear();
      try {
        const isServing = await this.report(signal);
        this.#problem = undefined;
        backOff.succeed();
        const limitMs = untilBeat(isServing ? LOOK_MS.serving : LOOK_MS.failing, clock);
        await this.#early.wait(signal, { limitMs, clock });
      } catch (cause) {
        if (signal.aborted) return;
        const reason = reasonOf(cause);
        if (this.#problem === undefined) log.warning('node conditions not reported', { reason });
        this.#problem = `the conditions of the Node cannot be written: ${reason}`;
        backOff.fail(cause);
        await backOff.wait(signal, this.#early);
      }
    }
  }

  /** Another Node of the same name has no conditions. */
  async #watchNode(signal: AbortSignal): Promise<void> {
    const { store, log } = this.#ports;
    let before: unknown;
    const work = async (): Promise<void> => {
      for await (const event of store().follow([{ kind: 'resources', of: 'Node', name: this.#node }], { signal })) {
        if (event.kind === 'bookmark') continue;
        const [record] = event.records;
        const after = record?.kind === 'resource' && record.value !== undefined ? unversioned(record.value) : undefined;
        // Writes of conditions change the version alone.
        if (!isDeepStrictEqual(before, after)) this.renew();
        before = after;
      }
    };
    const onFailure = (cause: unknown, failures: number): void => {
      if (failures === 1) log.debug('watch of the Node lost', { reason: reasonOf(cause) });
    };
    await keepRunning(this.#ports, { work, onFailure }, signal);
  }

  #isDue(condition: NodeCondition): boolean {
    const nowMs = this.#ports.clock.monotonic();
    if (!isFailure(condition)) {
      this.#failingSinceMs.delete(condition.type);
      return true;
    }
    const sinceMs = this.#failingSinceMs.get(condition.type) ?? nowMs;
    this.#failingSinceMs.set(condition.type, sinceMs);
    return nowMs - sinceMs >= FAILURE_GRACE_MS;
  }

  #mustReport(conditions: readonly NodeCondition[]): boolean {
    if (this.#reported === undefined || this.#isOutdated) return true;
    const ageMs = this.#ports.clock.monotonic() - this.#reported.atMs;
    if (isDeepStrictEqual(conditions, this.#reported.conditions)) return ageMs >= RENEW_MS;
    const isOnlyText = isDeepStrictEqual(conditions.map(withoutText), this.#reported.conditions.map(withoutText));
    return !isOnlyText || ageMs >= TEXT_PAUSE_MS;
  }
}

/** `NetworkUnavailable` is a failure when it is True, unlike the other. */
function isFailure({ type, status }: NodeCondition): boolean {
  return status === (type === NODE_CONDITIONS.unavailable ? 'True' : 'False');
}

function withoutText({ type, status, reason }: NodeCondition): object {
  return { type, status, reason };
}
