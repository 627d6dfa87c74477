import { getOrInsert } from '../../base/get-or-insert.ts';
import { digestOfText } from '../../dataplane/rule-digest.ts';
import { type Cidr, formatCidr } from '../../net/cidr.ts';
import type { PolicyView, TouchedPolicy } from '../policy-view.ts';
import { isContentTouched, keyOfContent } from '../set-content.ts';
import type { PolicyRule, ResolvedPolicy, ResolvedProfile } from '../resolved-policy.ts';
import { entriesOf, type FedContent, fedContentsOf } from './set-entries.ts';

/** Changes that are kept for those who have an older state. */
const MOST_CHANGES = 64;

export interface SetChange {
  readonly added: readonly string[];
  readonly removed: readonly string[];
}

interface KeptSet {
  readonly content: FedContent;
  entries: ReadonlySet<string>;
  /** The newest last. */
  readonly changes: SetChange[];
  /** Number of changes in all. */
  count: number;
}

/** Sets that rules look up, once for all pods that need them, with their last changes. */
export class FedSets {
  readonly #view: PolicyView;
  readonly #kept = new Map<string, KeptSet>();
  /** By key, of policies and profiles, which are other objects when their rules change. */
  readonly #contents = new WeakMap<object, ReadonlyMap<string, FedContent>>();

  constructor(view: PolicyView) {
    this.#view = view;
  }

  /** Applies a change of the view, and returns the keys of the sets that it changed. */
  update(touched: TouchedPolicy): ReadonlySet<string> {
    const changed = new Set<string>();
    for (const [key, kept] of this.#kept) {
      const change = this.#changeOf(kept, touched);
      if (change === undefined || change.added.length + change.removed.length === 0) continue;
      const entries = new Set(kept.entries);
      for (const entry of change.removed) entries.delete(entry);
      for (const entry of change.added) entries.add(entry);
      kept.entries = entries;
      kept.changes.push(change);
      kept.count += 1;
      if (kept.changes.length > MOST_CHANGES) kept.changes.shift();
      changed.add(key);
    }
    return changed;
  }

  /** Returns the keys of what its rules for received packets look up, which is kept from now on. */
  keep(owner: ResolvedPolicy | ResolvedProfile): readonly string[] {
    const contents = getOrInsert(this.#contents, owner, () => contentsByKey(owner.rules.ingress ?? []));
    for (const [key, content] of contents) {
      if (this.#kept.has(key)) continue;
      const entries = new Set(entriesOf(this.#view, content));
      this.#kept.set(key, { content, entries, changes: [], count: 0 });
    }
    return [...contents.keys()];
  }

  /** Returns how the set changed since it had this number of changes; all of it for `undefined`, or when that is too long ago. */
  since(key: string, count: number | undefined): SetChange & { readonly isWhole: boolean; readonly count: number } {
    const kept = this.#kept.get(key);
    if (kept === undefined) throw new Error(`set ${key} is not kept`);
    const missed = kept.count - (count ?? Number.NEGATIVE_INFINITY);
    if (missed > kept.changes.length)
      return { isWhole: true, added: [...kept.entries], removed: [], count: kept.count };
    const changes = missed === 0 ? [] : kept.changes.slice(-missed);
    return { isWhole: false, ...joined(changes), count: kept.count };
  }

  /** Forgets the sets of other keys. */
  retain(keys: ReadonlySet<string>): void {
    for (const key of this.#kept.keys()) if (!keys.has(key)) this.#kept.delete(key);
  }

  #changeOf({ content, entries }: KeptSet, touched: TouchedPolicy): SetChange | undefined {
    // Rules that come and go take what they track with them, and its changes.
    const areRulesSame = touched.policies.size + touched.profiles.size === 0;
    if (content.kind === 'members' && areRulesSame) {
      const change = touched.selectors.get(content.selector.id);
      return change && { added: textsOf(change.added), removed: textsOf(change.removed) };
    }
    if (content.kind !== 'members' && !isTouched(content, touched)) return undefined;
    const after = new Set(entriesOf(this.#view, content));
    return { added: [...after.difference(entries)], removed: [...entries.difference(after)] };
  }
}

function textsOf(cidrs: ReadonlyMap<string, Cidr>): readonly string[] {
  return Array.from(cidrs.values(), formatCidr);
}

function contentsByKey(rules: readonly PolicyRule[]): ReadonlyMap<string, FedContent> {
  return new Map(fedContentsOf(rules).map((content) => [keyOf(content), content]));
}

/** Keys of lists of networks can be long. */
function keyOf(content: FedContent): string {
  if (content.kind === 'accounts') return `accounts ${content.selector.id}`;
  return content.kind === 'nets' ? `nets ${digestOfText(keyOfContent(content))}` : keyOfContent(content);
}

function isTouched(content: Exclude<FedContent, { kind: 'members' }>, touched: TouchedPolicy): boolean {
  return content.kind === 'accounts' ? touched.accounts.size > 0 : isContentTouched(content, touched);
}

function joined(changes: readonly SetChange[]): SetChange {
  const [added, removed] = [new Set<string>(), new Set<string>()];
  for (const change of changes) {
    for (const entry of change.removed) if (!added.delete(entry)) removed.add(entry);
    for (const entry of change.added) if (!removed.delete(entry)) added.add(entry);
  }
  return { added: [...added], removed: [...removed] };
}
