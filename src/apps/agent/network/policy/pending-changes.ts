import type { Clock } from '../../../../base/clock.ts';
import type { PolicyChange } from '../../../../policy/policy-change.ts';
import { entriesOfChange } from './weigh-record.ts';

/** A write takes less; a change that waits longer is a problem of the node. */
const LATE_MS = 5000;

/** Changes that wait for the same write. */
interface Waiting {
  readonly sinceMs: number;
  readonly count: number;
  readonly largest: { readonly name: string; readonly entries: number } | undefined;
}

/** Changes of policies, and of what they depend on, that are known and not in the kernel yet. */
export class PendingChanges {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** Those that the next write takes. */
  #waiting: Waiting | undefined;
  /** Those of the write that runs. */
  #sent: Waiting | undefined;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Notes changes that have become known. */
  note(changes: readonly PolicyChange[]): void {
    if (changes.length === 0) return;
    this.#waiting = joined(this.#waiting, waitingOf(changes, this.#clock.monotonic()));
  }

  /** A write of all changes begins. */
  send(): void {
    this.#sent = joined(this.#sent, this.#waiting);
    this.#waiting = undefined;
  }

  /** The write that began last has succeeded. One that fails leaves its changes to the next. */
  written(): void {
    this.#sent = undefined;
  }

  /** Returns how long the oldest change has waited; 0 when none waits. */
  lagMs(): number {
    const oldest = this.#sent ?? this.#waiting;
    return oldest === undefined ? 0 : this.#clock.monotonic() - oldest.sinceMs;
  }

  /** Returns a sentence about changes that have waited for long; none otherwise. */
  problems(): readonly string[] {
    const lagMs = this.lagMs();
    const all = joined(this.#sent, this.#waiting);
    if (all === undefined || lagMs < LATE_MS) return [];
    const { count, largest } = all;
    const most =
      largest === undefined ? '' : `, the largest of ${largest.name} with ${String(largest.entries)} entries`;
    const seconds = String(Math.floor(lagMs / 1000));
    return [
      `policies in the kernel are ${seconds} s behind the datastore: changes of ${String(count)} objects wait${most}`,
    ];
  }
}

function waitingOf(changes: readonly PolicyChange[], sinceMs: number): Waiting {
  let largest: Waiting['largest'];
  for (const change of changes) {
    const entries = entriesOfChange(change);
    if (entries > (largest?.entries ?? 0)) largest = { name: nameOf(change), entries };
  }
  return { sinceMs, count: changes.length, largest };
}

function nameOf(change: PolicyChange): string {
  if (change.kind !== 'resource') return change.key;
  const { kind, namespace, name } = change.which;
  return `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}

/** The first came before the second. */
function joined(first: Waiting | undefined, second: Waiting | undefined): Waiting | undefined {
  if (first === undefined || second === undefined) return first ?? second;
  const isFirstLarger = (first.largest?.entries ?? 0) >= (second.largest?.entries ?? 0);
  return {
    sinceMs: first.sinceMs,
    count: first.count + second.count,
    largest: isFirstLarger ? first.largest : second.largest,
  };
}
