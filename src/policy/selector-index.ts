import { OneToMany } from '../base/one-to-many.ts';
import type { Labels } from '../model/selector.ts';
import type { Selector } from '../model/selector-parser.ts';
import { NAMESPACE_LABEL, NAMESPACE_PREFIX, ORCHESTRATOR_LABEL } from '../model/policy-names.ts';

/** A label that something needs so that a selector can match it; with any value unless one is given. */
interface Needed {
  readonly label: string;
  readonly value: string | undefined;
}

/** Cost of a needed label: most things have the label `netplug/orchestrator`, few the value of another label. */
const COST = { value: 1, ofNamespace: 2, namespace: 3, anyValue: 4, orchestrator: 5 } as const;

/** Finds the selectors that may match some labels, by a label that each of them needs. */
export class SelectorIndex<T extends object | string | number> {
  readonly #byLabel = new OneToMany<string, T>();
  /** Selectors that need no label, such as `all()`. */
  readonly #others = new Set<T>();

  add(selector: Selector, entry: T): void {
    const needed = neededBy(selector);
    if (needed === undefined) this.#others.add(entry);
    for (const each of needed ?? []) this.#byLabel.add(keyOf(each), entry);
  }

  remove(selector: Selector, entry: T): void {
    const needed = neededBy(selector);
    if (needed === undefined) this.#others.delete(entry);
    for (const each of needed ?? []) this.#byLabel.delete(keyOf(each), entry);
  }

  /** Returns what may match, and everything that does. */
  candidates(labels: Labels): ReadonlySet<T> {
    const found = new Set(this.#others);
    for (const [label, value] of Object.entries(labels)) {
      for (const entry of this.#byLabel.get(keyOf({ label, value }))) found.add(entry);
      for (const entry of this.#byLabel.get(keyOf({ label, value: undefined }))) found.add(entry);
    }
    return found;
  }
}

/** No label of a selector has a space. */
function keyOf({ label, value }: Needed): string {
  return value === undefined ? label : `${label} ${value}`;
}

/** Returns labels of which the selector needs at least one; undefined when it may match without labels. */
function neededBy(selector: Selector): readonly Needed[] | undefined {
  switch (selector.kind) {
    case '==':
      return [{ label: selector.label, value: selector.value }];
    case 'in':
      return selector.values.map((value) => ({ label: selector.label, value }));
    case 'has':
    case 'contains':
    case 'starts with':
    case 'ends with':
      return [{ label: selector.label, value: undefined }];
    case 'and':
      return selector.of
        .map(neededBy)
        .filter((needed) => needed !== undefined)
        .toSorted((a, b) => costOf(a) - costOf(b))[0];
    case 'or': {
      const parts = selector.of.map(neededBy);
      return parts.includes(undefined) ? undefined : parts.flatMap((part) => part ?? []);
    }
    case 'not':
    case '!=':
    case 'not in':
    case 'all':
    case 'global':
    default:
      return undefined;
  }
}

function costOf(needed: readonly Needed[]): number {
  // Not `Math.max(...)`: users write sets longer than the stack is deep.
  return needed.reduce((highest, each) => Math.max(highest, costOfOne(each)), 0);
}

function costOfOne({ label, value }: Needed): number {
  if (label === ORCHESTRATOR_LABEL) return COST.orchestrator;
  if (value === undefined) return COST.anyValue;
  if (label === NAMESPACE_LABEL) return COST.namespace;
  return label.startsWith(NAMESPACE_PREFIX) ? COST.ofNamespace : COST.value;
}
