import { getOrInsert } from '../../base/get-or-insert.ts';
import { FAMILIES, type Family } from '../../net/address.ts';
import type { PolicyVerdict } from '../evaluate.ts';
import type { PolicyView } from '../policy-view.ts';
import type { PolicyDirection } from '../resolved-policy.ts';
import { EXTENT, type Extent, extentOfEnd } from './judge-end.ts';
import type { NamedAddress, Peer, PeerClass } from './peer-classes.ts';
import { decisionKey, type JudgedTraffic, type Judgement, type Pair, ReachModel, splitAt } from './reach-model.ts';
import { joinTraffic, partWith, type Traffic } from './traffic.ts';

const BEFORE = 0;
const AFTER = 1;
const DIRECTIONS = ['egress', 'ingress'] as const;

/** Verdicts of one end of a connection before and after a change. */
export interface ChangedEnd {
  readonly direction: PolicyDirection;
  readonly before: JudgedTraffic;
  readonly after: JudgedTraffic;
}

/** Connections that a change cuts or opens, for the same reasons. Each of `from` is concerned with each of `to`. */
export interface ReachChange {
  readonly verdict: PolicyVerdict;
  readonly from: readonly Peer[];
  readonly to: readonly Peer[];
  readonly traffic: readonly Traffic[];
  /** Undefined when both IP families are concerned, or the ends have one alone. */
  readonly family: Family | undefined;
  /** The ends whose verdict changed: one or both. */
  readonly ends: readonly ChangedEnd[];
}

export interface ReachComparison {
  readonly changes: readonly ReachChange[];
  /** Everything that two ends can exchange. */
  readonly whole: readonly Traffic[];
}

/** A difference between two views, without the ends that it concerns. */
interface Difference {
  readonly verdict: PolicyVerdict;
  readonly traffic: readonly Traffic[];
  readonly ends: readonly ChangedEnd[];
}

/** Returns which connections between present ends a change of policies cuts and opens. */
export function compareReach(
  views: { readonly before: PolicyView; readonly after: PolicyView },
  named: readonly NamedAddress[],
): ReachComparison {
  const model = new ReachModel([views.before, views.after], named);
  const touched = { egress: touchedClasses(model, 'egress'), ingress: touchedClasses(model, 'ingress') };
  const found = new FoundDifferences(model.classes);
  const known = new Map<string, readonly Difference[]>();
  for (const pair of model.pairs((from, to) => touched.egress.has(from) || touched.ingress.has(to))) {
    const ends = DIRECTIONS.map((direction) => ({
      direction,
      before: model.judge(BEFORE, pair, direction),
      after: model.judge(AFTER, pair, direction),
    }));
    if (ends.every(({ before, after }) => before === after)) continue;
    const key = ends.map(({ before, after }) => `${String(before?.number)} ${String(after?.number)}`).join();
    const differences = getOrInsert(known, key, () => found.distinct(differencesOf(ends, model.whole)));
    for (const difference of differences) found.add(difference, pair);
  }
  return { changes: found.grouped(), whole: model.whole };
}

/** Returns the classes whose rules, or the peers of whose rules, differ between the views. */
function touchedClasses({ classes }: ReachModel, direction: PolicyDirection): ReadonlySet<PeerClass> {
  const changedTerms = new Set(
    classes.flatMap(({ terms: [before = new Set<string>(), after = new Set<string>()] }) => [
      ...before.symmetricDifference(after),
    ]),
  );
  const changedKeys = new Set([...changedTerms].map((term) => term.slice(2)));
  return new Set(
    classes.filter(({ subject }) => {
      const [before, after] = [subject?.[BEFORE]?.[direction], subject?.[AFTER]?.[direction]];
      if (before?.key !== after?.key) return true;
      return [before, after].some((each) => each?.facts.terms.some(({ key }) => changedKeys.has(key)) ?? false);
    }),
  );
}

interface JudgedEnd {
  readonly direction: PolicyDirection;
  readonly before: Judgement | undefined;
  readonly after: Judgement | undefined;
}

function differencesOf(ends: readonly JudgedEnd[], whole: readonly Traffic[]): readonly Difference[] {
  const judged = ends.flatMap(({ before, after }) => [...(before?.parts ?? []), ...(after?.parts ?? [])]);
  const found = new Map<string, { verdict: PolicyVerdict; ends: readonly ChangedEnd[]; traffic: Traffic[] }>();
  for (const part of splitAt(
    whole,
    judged.map(({ first }) => first),
  )) {
    const here = ends.flatMap(({ direction, before: earlier, after: later }): ChangedEnd[] => {
      const [before, after] = [partWith(earlier?.parts ?? [], part), partWith(later?.parts ?? [], part)];
      return before === undefined || after === undefined ? [] : [{ direction, before, after }];
    });
    const [was, is] = [leastOf(here, 'before'), leastOf(here, 'after')];
    if (was === is) continue;
    const changed = here.filter(({ before, after }) => extentOfEnd(before.judged) !== extentOfEnd(after.judged));
    const changedPart = differing(part, was, is);
    const key = reasonsKey(changed);
    const verdict: PolicyVerdict = is > was ? 'allow' : 'deny';
    getOrInsert(found, key, () => ({ verdict, ends: changed, traffic: [] })).traffic.push(changedPart);
  }
  return [...found.values()].map(({ traffic, ...rest }) => ({ ...rest, traffic: joinTraffic(traffic) }));
}

function leastOf(ends: readonly ChangedEnd[], side: 'before' | 'after'): Extent {
  const extents = ends.map((end) => extentOfEnd(end[side].judged));
  return extents.reduce((least, each) => (each < least ? each : least), EXTENT.all);
}

/** Returns what of the traffic is allowed on one side of a change alone. */
function differing(part: Traffic, was: Extent, is: Extent): Traffic {
  const [less, more] = was < is ? [was, is] : [is, was];
  if (more === EXTENT.requests) return { ...part, requests: 'some' };
  return less === EXTENT.requests ? { ...part, requests: 'all but some' } : part;
}

function reasonsKey(ends: readonly ChangedEnd[]): string {
  return JSON.stringify(
    ends.map(({ direction, before, after }) => [direction, decisionKey(before.judged), decisionKey(after.judged)]),
  );
}

/** Numbers of the classes that send, by family. */
type Senders = Readonly<Record<Family, Set<number>>>;

/** Collects which pairs of classes each difference concerns. */
class FoundDifferences {
  readonly #classes: readonly PeerClass[];
  readonly #distinct = new Map<string, Difference>();
  /** By number of the class that receives. */
  readonly #pairs = new Map<Difference, Map<number, Senders>>();

  constructor(classes: readonly PeerClass[]) {
    this.#classes = classes;
  }

  /** Returns one object for equal differences. */
  distinct(differences: readonly Difference[]): readonly Difference[] {
    return differences.map((difference) => {
      const { verdict, traffic, ends } = difference;
      const key = JSON.stringify([verdict, traffic, reasonsKey(ends)]);
      return getOrInsert(this.#distinct, key, () => difference);
    });
  }

  add(difference: Difference, { from, to, family }: Pair): void {
    const receivers = getOrInsert(this.#pairs, difference, () => new Map<number, Senders>());
    getOrInsert(receivers, to.number, () => ({ 4: new Set(), 6: new Set() }))[family].add(from.number);
  }

  /** Returns each difference with its ends: receivers that have equal senders together. The largest come first. */
  grouped(): readonly ReachChange[] {
    const changes = [...this.#pairs].flatMap(([difference, receivers]) => {
      const groups = new Map<string, { family: Family | undefined; senders: readonly number[]; receivers: number[] }>();
      for (const [to, found] of receivers) {
        for (const { family, senders } of this.#byFamily(to, found)) {
          const key = `${String(family)} ${senders.join()}`;
          getOrInsert(groups, key, () => ({ family, senders, receivers: [] })).receivers.push(to);
        }
      }
      return [...groups.values()].map(({ family, senders, receivers: own }): ReachChange => ({
        ...difference,
        family,
        from: this.#membersOf(senders),
        to: this.#membersOf(own),
      }));
    });
    return changes.toSorted((a, b) => b.from.length * b.to.length - a.from.length * a.to.length);
  }

  /** Divides senders into those whose every connection to the receiver is concerned, and those of one family alone. */
  #byFamily(
    to: number,
    found: Senders,
  ): readonly { readonly family: Family | undefined; readonly senders: readonly number[] }[] {
    const both = found[4].intersection(found[6]);
    const parts: { family: Family | undefined; senders: number[] }[] = [{ family: undefined, senders: [...both] }];
    for (const family of FAMILIES) {
      const single = [...found[family].difference(both)];
      const [some, whole] = [true, false].map((hasBoth) =>
        single.filter((from) => this.#shareBoth(from, to) === hasBoth),
      );
      parts[0]?.senders.push(...(whole ?? []));
      parts.push({ family, senders: some ?? [] });
    }
    return parts
      .filter(({ senders }) => senders.length > 0)
      .map(({ family, senders }) => ({ family, senders: senders.toSorted((a, b) => a - b) }));
  }

  #shareBoth(from: number, to: number): boolean {
    const ends = [this.#classes[from], this.#classes[to]];
    return FAMILIES.every((family) => ends.every((end) => end?.addresses[family] !== undefined));
  }

  #membersOf(numbers: readonly number[]): readonly Peer[] {
    return numbers.flatMap((number) => this.#classes[number]?.members ?? []);
  }
}
