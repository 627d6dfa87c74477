import { never } from '../base/errors.ts';
import { parseSelector, type Selector } from './selector-parser.ts';

export type Labels = Readonly<Record<string, string>>;

/**
 * Whether the selector, as text, matches the labels. A text that cannot be read matches nothing: writers refuse it, and
 * a record that slipped through must not open a pool to every node.
 */
export function matchesSelector(text: string, labels: Labels): boolean {
  const parsed = parseSelector(text);
  return 'selector' in parsed && evaluateSelector(parsed.selector, labels);
}

/** A label that is absent makes every comparison false, except `!=` and `not in`, which it makes true. */
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

/** Whether the selector asks for what is in no namespace. */
export function usesGlobal(selector: Selector): boolean {
  if (selector.kind === 'not') return usesGlobal(selector.of);
  if (selector.kind === 'and' || selector.kind === 'or') return selector.of.some(usesGlobal);
  return selector.kind === 'global';
}

/** The one text all selectors have that are written alike but for white space, quotes and the order of sets. */
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

/** The language has no escapes; no value holds both kinds of quotes. */
function quote(value: string): string {
  return value.includes('"') ? `'${value}'` : `"${value}"`;
}

function labelOf(labels: Labels, name: string): string | undefined {
  return Object.hasOwn(labels, name) ? labels[name] : undefined;
}
