import { never } from '../base/errors.ts';
import { canonicalSelector, countComparisons } from '../model/selector.ts';
import { parseSelector, type Selector } from '../model/selector-parser.ts';
import {
  NAMESPACE_LABEL,
  NAMESPACE_PREFIX,
  SERVICE_ACCOUNT_LABEL,
  SERVICE_ACCOUNT_PREFIX,
} from '../model/policy-names.ts';
import type { PeerSelector } from './resolved-policy.ts';

const EVERYTHING: Selector = { kind: 'all' };
const IN_A_NAMESPACE: Selector = { kind: 'has', label: NAMESPACE_LABEL };

/** A selector may take so many comparisons before they count. */
const ORDINARY = 16;
/** What the selector of a peer takes at least: up to four sets, among which the kernel finds one by going through all. */
const LEAST_OF_PEER = 128;

/** Returns what the selector takes of budgets: it is evaluated whenever a pod of the cluster changes. */
export function entriesOfSelector(selector: Selector): number {
  const comparisons = countComparisons(selector);
  return comparisons > ORDINARY ? comparisons : 0;
}

/** Returns what the selector of a peer takes of budgets. */
export function entriesOfPeer({ selector }: PeerSelector): number {
  return Math.max(countComparisons(selector), LEAST_OF_PEER);
}

/** A text that is not a selector. */
export class UnreadableSelector extends Error {}

/** @throws UnreadableSelector */
export function readSelector(text: string): Selector {
  const parsed = parseSelector(text);
  if ('selector' in parsed) return parsed.selector;
  throw new UnreadableSelector(`"${text}" is no selector: ${parsed.error} at character ${String(parsed.at + 1)}`);
}

/** Returns the selector of endpoints whose namespace has these labels; `global()` means those without a namespace. */
export function ofNamespaces(selector: Selector): Selector {
  return withPrefix(selector, {
    prefix: NAMESPACE_PREFIX,
    any: (kind) => (kind === 'all' ? IN_A_NAMESPACE : { kind: 'not', of: IN_A_NAMESPACE }),
  });
}

/** Returns the selector of endpoints whose service account has these labels. */
export function ofServiceAccounts(selector: Selector): Selector {
  return withPrefix(selector, {
    prefix: SERVICE_ACCOUNT_PREFIX,
    any: () => ({ kind: 'has', label: SERVICE_ACCOUNT_LABEL }),
  });
}

export function inNamespace(namespace: string): Selector {
  return { kind: '==', label: NAMESPACE_LABEL, value: namespace };
}

export function withServiceAccounts(names: readonly string[]): Selector {
  return { kind: 'in', label: SERVICE_ACCOUNT_LABEL, values: [...new Set(names)].sort() };
}

/** Returns the selector of what all parts select. */
export function allOf(parts: readonly Selector[]): Selector {
  const terms = new Map<string, Selector>();
  for (const part of parts.flatMap((each) => ('of' in each && each.kind === 'and' ? each.of : [each]))) {
    if (part.kind !== 'all') terms.set(canonicalSelector(part), part);
  }
  const [first = EVERYTHING, ...others] = terms.values();
  return others.length === 0 ? first : { kind: 'and', of: [first, ...others] };
}

export function peerSelectorOf(selector: Selector): PeerSelector {
  const text = canonicalSelector(selector);
  return { id: text, text, selector };
}

/** Returns the selector with the addresses that its pods and others claim. */
export function withContested(peer: PeerSelector): PeerSelector {
  return { ...peer, id: `${peer.text} and contested`, takesContested: true };
}

interface Renaming {
  readonly prefix: string;
  /** Returns the selector that `all()` or `global()` becomes. */
  readonly any: (kind: 'all' | 'global') => Selector;
}

function withPrefix(selector: Selector, renaming: Renaming): Selector {
  if ('label' in selector) return { ...selector, label: `${renaming.prefix}${selector.label}` };
  switch (selector.kind) {
    case 'all':
    case 'global':
      return renaming.any(selector.kind);
    case 'not':
      return { kind: 'not', of: withPrefix(selector.of, renaming) };
    case 'and':
    case 'or':
      return { kind: selector.kind, of: selector.of.map((part) => withPrefix(part, renaming)) };
    default:
      return never(selector);
  }
}
