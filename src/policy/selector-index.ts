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
export class SelectorIndex<T> {
  readonly #byValue = new Map<string, Map<string, Set<T>>>();
  readonly #byLabel = new Map<string, Set<T>>();
  /** Selectors that need no label, such as `all()`. */
  readonly #others = new Set<T>();

  add(selector: Selector, entry: T): void {
    for (const set of this.#setsOf(selector)) set.add(entry);
  }

  remove(selector: Selector, entry: T): void {
    for (const set of this.#setsOf(selector)) set.delete(entry);
    for (const { label, value } of neededBy(selector) ?? []) {
      const values = this.#byValue.get(label);
      if (value !== undefined && values?.get(value)?.size === 0) values.delete(value);
      if (values?.size === 0) this.#byValue.delete(label);
      if (this.#byLabel.get(label)?.size === 0) this.#byLabel.delete(label);
    }
  }

  /** Returns what may match, and everything that does. */
  candidates(labels: Labels): ReadonlySet<T> {
    const found = new Set(this.#others);
    for (const [label, value] of Object.entries(labels)) {
      for (const entry of this.#byValue.get(label)?.get(value) ?? []) found.add(entry);
      for (const entry of this.#byLabel.get(label) ?? []) found.add(entry);
    }
    return found;
  }

  #setsOf(selector: Selector): Set<T>[] {
    const needed = neededBy(selector);
    if (needed === undefined) return [this.#others];
    return needed.map(({ label, value }) => {
      if (value === undefined) return getOrAdd(this.#byLabel, label, () => new Set<T>());
      const values = getOrAdd(this.#byValue, label, () => new Map<string, Set<T>>());
      return getOrAdd(values, value, () => new Set<T>());
    });
  }
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
        .flatMap((part) => {
          const needed = neededBy(part);
          return needed === undefined ? [] : [needed];
        })
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

function getOrAdd<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const found = map.get(key);
  if (found !== undefined) return found;
  const made = make();
  map.set(key, made);
  return made;
}
