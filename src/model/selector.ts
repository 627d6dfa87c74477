import { ownValue } from '../base/own-value.ts';
import { never } from '../base/errors.ts';
import { parseSelector, type Selector } from './selector-parser.ts';

export type Labels = Readonly<Record<string, string>>;

/**
 * Reports whether the selector, as text, matches the labels. An invalid text matches nothing: writers refuse it, and an
 * invalid record must not open a pool to every node.
 */
export function matchesSelector(text: string, labels: Labels): boolean {
  const parsed = parseSelector(text);
  return 'selector' in parsed && evaluateSelector(parsed.selector, labels);
}

/** Labels of a pod, of its namespace and of its account that policies know, of each. A pod with more has no network. */
export const MOST_LABELS = 256;

/** Returns the labels, of too many one more than may be, so that the object is known to have too many. */
export function knownLabels(labels: Labels | null | undefined): Labels {
  const all = Object.entries(labels ?? {});
  return all.length > MOST_LABELS + 1 ? Object.fromEntries(all.slice(0, MOST_LABELS + 1)) : (labels ?? {});
}

/** Evaluates the selector. An absent label makes every comparison false, except `!=` and `not in`, which are true. */
export function evaluateSelector(selector: Selector, labels: Labels): boolean {
  switch (selector.kind) {
    case 'all':
    case 'global':
      return true;
    case 'not':
      return !evaluateSelector(selector.of, labels);
    case 'and':
      return selector.of.every((part) => evaluateSelector(part, labels));
    case 'or':
      return selector.of.some((part) => evaluateSelector(part, labels));
    case 'has':
      return labelOf(labels, selector.label) !== undefined;
    case 'in':
    case 'not in': {
      const value = labelOf(labels, selector.label);
      return (value !== undefined && selector.values.includes(value)) === (selector.kind === 'in');
    }
    case '==':
      return labelOf(labels, selector.label) === selector.value;
    case '!=':
      return labelOf(labels, selector.label) !== selector.value;
    case 'contains':
      return labelOf(labels, selector.label)?.includes(selector.value) ?? false;
    case 'starts with':
      return labelOf(labels, selector.label)?.startsWith(selector.value) ?? false;
    case 'ends with':
      return labelOf(labels, selector.label)?.endsWith(selector.value) ?? false;
    default:
      return never(selector);
  }
}

/** Reports whether the selector contains `global()`. */
export function usesGlobal(selector: Selector): boolean {
  if (selector.kind === 'not') return usesGlobal(selector.of);
  if (selector.kind === 'and' || selector.kind === 'or') return selector.of.some(usesGlobal);
  return selector.kind === 'global';
}

/** Returns how many comparisons the selector may take; each value of a set is one. */
export function countComparisons(selector: Selector): number {
  if (selector.kind === 'not') return countComparisons(selector.of);
  if (selector.kind === 'and' || selector.kind === 'or')
    return selector.of.reduce((sum, part) => sum + countComparisons(part), 0);
  return 'values' in selector ? Math.max(1, selector.values.length) : 1;
}

/** Returns the canonical text, which does not depend on white space, quotes and the order of sets. */
export function canonicalSelector(selector: Selector): string {
  switch (selector.kind) {
    case 'all':
    case 'global':
      return `${selector.kind}()`;
    case 'has':
      return `has(${selector.label})`;
    case 'not':
      return `!${canonicalSelector(selector.of)}`;
    case 'and':
      return `(${selector.of.map(canonicalSelector).join(' && ')})`;
    case 'or':
      return `(${selector.of.map(canonicalSelector).join(' || ')})`;
    case 'in':
    case 'not in':
      return `${selector.label} ${selector.kind} {${selector.values.map(quote).join(', ')}}`;
    case '==':
    case '!=':
    case 'contains':
    case 'starts with':
    case 'ends with':
      return `${selector.label} ${selector.kind} ${quote(selector.value)}`;
    default:
      return never(selector);
  }
}

/** Quotes a value. The language has no escapes, and no value contains both kinds of quotes. */
function quote(value: string): string {
  return value.includes('"') ? `'${value}'` : `"${value}"`;
}

function labelOf(labels: Labels, name: string): string | undefined {
  return ownValue(labels, name);
}
