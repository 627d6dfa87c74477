import { ownValue } from '../base/own-value.ts';
import type { Actor } from './carry-out.ts';
import type { Stage, WriteStep } from './plan.ts';

/** One kind of act. Every act can be repeated: one that was interrupted is applied again. */
export interface Act<D, P> {
  /** Returns what the act does, for the user. Pure. */
  readonly text: (data: D) => string;
  /** Reports whether the actual state shows that the act is done. Without it, the act is applied whenever a plan has it. */
  readonly isDone?: (data: D, ports: P) => Promise<boolean>;
  readonly apply: (data: D, ports: P) => Promise<void>;
  /** Set when it cannot be undone. */
  readonly isFinal?: true;
}

interface Named {
  readonly act: string;
}

/** A table of acts. `A` is the union of what their steps hold. */
export type Acts<A extends Named, P> = { readonly [K in A['act']]: Act<Extract<A, { readonly act: K }>, P> };

/** A stage by its title and the acts of its steps. */
export type ActStage<A> = readonly [title: string, acts: readonly A[]];

/** Returns the stages of a plan, but those without acts. */
export function actStages<A extends Named, P>(acts: Acts<A, P>, stages: readonly ActStage<A>[]): readonly Stage<A>[] {
  return stages.flatMap(([title, data]) =>
    data.length === 0 ? [] : [{ title, steps: data.map((each) => actStep(acts, each)) }],
  );
}

/** Returns the step of an act. */
export function actStep<A extends Named, P>(acts: Acts<A, P>, data: A): WriteStep<A> {
  const { text, isFinal } = actOf(acts, data);
  return { ...data, kind: 'write', text: text(data), ...(isFinal === undefined ? {} : { isFinal }) };
}

/** Returns the act of a step. */
export function actOf<A extends Named, P>(acts: Acts<A, P>, { act }: A): Act<A, P> {
  const byName: Readonly<Record<string, unknown>> = acts;
  // The name proves that the data is that of the act, which the compiler does not see.
  return ownValue(byName, act) as Act<A, P>;
}

/** Returns the actor of the steps of a table. */
export function actorOf<A extends Named, P>(acts: Acts<A, P>, ports: P): Actor<A> {
  return {
    inspect: async (step) => ((await actOf(acts, step).isDone?.(step, ports)) === true ? 'after' : 'before'),
    apply: async (step) => actOf(acts, step).apply(step, ports),
  };
}
