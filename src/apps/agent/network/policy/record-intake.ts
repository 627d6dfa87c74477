import { inTurn, slicesByWeight } from '../../../../base/slices.ts';
import type { PolicyRecord } from '../../../../cache/policy-records.ts';
import type { PolicyChange } from '../../../../policy/policy-change.ts';
import type { PolicyState } from '../../../../policy/policy-state.ts';
import type { CompiledPolicies } from './compiled-policies.ts';
import type { LocalPods } from './local-pods.ts';
import type { PendingChanges } from './pending-changes.ts';
import { weightOfRecord } from './weigh-record.ts';

/** Records that are applied before other work may run, large policies and network sets for many. */
const AT_ONCE = 200;

interface IntakeParts {
  readonly state: PolicyState;
  readonly compiled: Pick<CompiledPolicies, 'take'>;
  readonly pods: Pick<LocalPods, 'join'>;
  readonly pending: PendingChanges;
  /** Reports whether what is taken is to be compiled at once. */
  readonly isEnforcing: () => boolean;
}

/** Applies changes of records to the state of policies, large ones in slices. */
export class RecordIntake {
  readonly #parts: IntakeParts;
  /** Resolved when all slices of a change are in the state. Until then nothing is compiled, written or judged. */
  #taking: Promise<void> | undefined;

  constructor(parts: IntakeParts) {
    this.#parts = parts;
  }

  take(changes: readonly PolicyChange[]): void {
    this.#parts.pending.note(changes);
    this.#apply(changes);
  }

  /** Lets other work of the process run in between: a snapshot may have 10 000 pods. */
  async takeInSlices(records: readonly PolicyRecord[]): Promise<void> {
    const { pods, pending } = this.#parts;
    pending.note(records);
    const sliced = slicesByWeight(records, { most: AT_ONCE, weightOf: weightOfRecord });
    if (sliced.length <= 1) return this.#apply(pods.join(records));
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#taking = promise;
    try {
      // A pod may have come or gone between two slices.
      for await (const slice of inTurn(sliced)) this.#apply(pods.join(slice));
    } finally {
      this.#taking = undefined;
      resolve();
    }
  }

  /** Resolves when no change is half in the state. */
  async whole(): Promise<void> {
    while (this.#taking !== undefined) await this.#taking;
  }

  #apply(changes: readonly PolicyChange[]): void {
    const { state, compiled, isEnforcing } = this.#parts;
    const touched = state.apply(changes);
    // A part of a snapshot or of another large change is not written.
    compiled.take(touched, isEnforcing() && this.#taking === undefined);
  }
}
