import type { FilterSet } from './policy-filter.ts';

/** Elements that a set has more and less than an earlier one. */
export interface ElementChange {
  readonly added: readonly string[];
  readonly removed: readonly string[];
}

/** The earlier sets are not kept: each has one before it. */
const changes = new WeakMap<FilterSet, ElementChange & { readonly since: WeakRef<FilterSet> }>();

/** Notes how the set was made from the one before, so that those who have that one need not compare two large sets. */
export function noteChange(set: FilterSet, before: FilterSet, { added, removed }: ElementChange): void {
  changes.set(set, { since: new WeakRef(before), added, removed });
}

/** Returns how the set was made from the one before; undefined when that is not known. */
export function changeSince(set: FilterSet, before: FilterSet | undefined): ElementChange | undefined {
  const change = changes.get(set);
  return before !== undefined && change?.since.deref() === before ? change : undefined;
}
