import { evaluateSelector, type Labels } from '../model/selector.ts';
import type { Cidr } from '../net/cidr.ts';
import { MemberSet } from './member-set.ts';
import type { MemberChange } from './policy-view.ts';
import type { PeerSelector } from './resolved-policy.ts';
import { SelectorIndex } from './selector-index.ts';

/** Item that selectors select. */
export interface SelectedItem {
  readonly labels: Labels;
  readonly cidrs: readonly Cidr[];
  /** Addresses that another pod claims as well. */
  readonly contested: readonly Cidr[];
  readonly hasNamedPorts: boolean;
  /** Selectors that select the item. Not a set, because most items have few. */
  readonly selectors: TrackedSelector[];
}

export interface TrackedSelector {
  readonly peer: PeerSelector;
  readonly members: MemberSet;
  readonly items: Set<SelectedItem>;
  uses: number;
  areNamedPortsTouched: boolean;
}

/** The selectors that rules use, with their members. */
export class TrackedSelectors {
  readonly #byId = new Map<string, TrackedSelector>();
  readonly #index = new SelectorIndex<TrackedSelector>();
  readonly #touched = new Set<TrackedSelector>();
  readonly #unused = new Set<TrackedSelector>();

  find({ id }: PeerSelector): TrackedSelector | undefined {
    return this.#byId.get(id);
  }

  /** Counts one more use of the selector. The first use finds its members among the items. */
  use(peer: PeerSelector, items: Iterable<SelectedItem>): void {
    const known = this.#byId.get(peer.id);
    if (known !== undefined) {
      known.uses += 1;
      return;
    }
    const tracked = {
      peer,
      members: new MemberSet(),
      items: new Set<SelectedItem>(),
      uses: 1,
      areNamedPortsTouched: false,
    };
    const selected = [...items].filter(({ labels }) => evaluateSelector(peer.selector, labels));
    this.#index.add(peer.selector, tracked);
    this.#byId.set(peer.id, tracked);
    this.#touched.add(tracked);
    for (const item of selected) this.#enter(tracked, item);
  }

  /** Takes back one use. A selector without uses is kept until the changes are taken, as another rule may use it. */
  release({ id }: PeerSelector): void {
    const tracked = this.#byId.get(id);
    if (tracked === undefined) return;
    tracked.uses -= 1;
    if (tracked.uses === 0) this.#unused.add(tracked);
  }

  /** Moves an item from its earlier to its present state; undefined for one that came or went. */
  move(before: SelectedItem | undefined, after: SelectedItem | undefined): void {
    if (after !== undefined) {
      const candidates = [...this.#index.candidates(after.labels)];
      // All are evaluated first: one that fails must leave nothing half done.
      const selecting = candidates.filter(({ peer }) => evaluateSelector(peer.selector, after.labels));
      for (const tracked of selecting) this.#enter(tracked, after);
    }
    if (before === undefined) return;
    for (const tracked of before.selectors.splice(0)) this.#leave(tracked, before);
  }

  /** Returns how members changed since the last call, by id of the selector. */
  takeChanges(): Map<string, MemberChange> {
    for (const tracked of this.#unused) if (tracked.uses === 0) this.#forget(tracked);
    this.#unused.clear();
    const changes = new Map<string, MemberChange>();
    for (const tracked of this.#touched) {
      const { added, removed } = tracked.members.takeChange();
      const { areNamedPortsTouched } = tracked;
      tracked.areNamedPortsTouched = false;
      if (added.size === 0 && removed.size === 0 && !areNamedPortsTouched) continue;
      changes.set(tracked.peer.id, { added, removed, areNamedPortsTouched });
    }
    this.#touched.clear();
    return changes;
  }

  #forget(tracked: TrackedSelector): void {
    for (const { selectors } of tracked.items) selectors.splice(selectors.indexOf(tracked), 1);
    this.#byId.delete(tracked.peer.id);
    this.#index.remove(tracked.peer.selector, tracked);
    this.#touched.delete(tracked);
  }

  #enter(tracked: TrackedSelector, item: SelectedItem): void {
    for (const cidr of cidrsFor(tracked.peer, item)) tracked.members.add(cidr);
    tracked.items.add(item);
    item.selectors.push(tracked);
    this.#touch(tracked, item);
  }

  #leave(tracked: TrackedSelector, item: SelectedItem): void {
    for (const cidr of cidrsFor(tracked.peer, item)) tracked.members.remove(cidr);
    tracked.items.delete(item);
    this.#touch(tracked, item);
  }

  #touch(tracked: TrackedSelector, item: SelectedItem): void {
    tracked.areNamedPortsTouched ||= item.hasNamedPorts;
    this.#touched.add(tracked);
  }
}

/** Returns the addresses and nets of a selected item that count for the selector. */
export function cidrsFor(
  { takesContested }: PeerSelector,
  { cidrs, contested }: Pick<SelectedItem, 'cidrs' | 'contested'>,
): readonly Cidr[] {
  return takesContested === true && contested.length > 0 ? [...cidrs, ...contested] : cidrs;
}
