import { slicesByWeight } from '../../base/slices.ts';
import { getOrInsert } from '../../base/get-or-insert.ts';
import { changeSince, type ElementChange } from '../changed-sets.ts';
import type { FilterChain, FilterChange, FilterSet, FilterTable, TableRule } from '../policy-filter.ts';
import { digestOfRules } from '../rule-digest.ts';
import type { Message } from './netlink.ts';
import { additions, removals } from './element-messages.ts';
import { isMap } from './nft-elements.ts';
import { RuleEncoder } from './nft-expressions.ts';
import {
  addChain,
  addRule,
  addSet,
  addTable,
  deleteChain,
  deleteSet,
  deleteTable,
  flushChain,
  hookText,
  setShape,
  wakeTable,
} from './nft-messages.ts';

/** Chains and sets that the kernel has of a table. */
export interface ActualTable {
  readonly chains: ReadonlyMap<string, ActualChain>;
  readonly sets: ReadonlyMap<string, ActualSet>;
  /** Another program has put its hooks out of force. */
  readonly isDormant?: boolean;
}

export interface ActualChain {
  /** As `hookText` returns it. */
  readonly hook: string;
  /** In order. */
  readonly comments: readonly string[];
  /** The desired chain that this one was made from, when this program made it. */
  readonly source?: FilterChain;
}

export interface ActualSet {
  readonly shape: string;
  readonly elements: ReadonlySet<string> | ReadonlyMap<string, string>;
  readonly source?: FilterSet;
}

export interface PolicyBatch {
  /** The messages of one transaction. Empty when the actual state is the desired one. */
  readonly messages: readonly Message[];
  /** The id of the rule that a message adds. */
  readonly ruleOf: ReadonlyMap<Message, string>;
  readonly change: FilterChange;
}

const NO_TABLE: ActualTable = { chains: new Map(), sets: new Map() };

/** Plans the messages that turn the actual table, or none, into the desired one. */
export function planPolicyBatch(desired: FilterTable, actual: ActualTable | undefined): PolicyBatch {
  if (actual === undefined) return planFrom(desired, NO_TABLE, [addTable(desired.name)]);
  // No other program has a reason for that; a chain or set cannot change its kind.
  if (!hasDesiredKinds(desired, actual))
    return planFrom(desired, NO_TABLE, [deleteTable(desired.name), addTable(desired.name)]);
  return planFrom(desired, actual, wakingOf(desired, actual));
}

function wakingOf({ name }: FilterTable, { isDormant }: ActualTable): readonly Message[] {
  return isDormant === true ? [wakeTable(name)] : [];
}

function hasDesiredKinds(desired: FilterTable, actual: ActualTable): boolean {
  const haveHooks = [...desired.chains].every(([name, chain]) => {
    const present = actual.chains.get(name);
    return present === undefined || present.hook === hookText(chain.hook);
  });
  const haveShapes = [...desired.sets].every(([name, set]) => {
    const present = actual.sets.get(name);
    return present === undefined || present.source === set || present.shape === setShape(set);
  });
  return haveHooks && haveShapes;
}

/** An object is added after what it refers to, and deleted before it. */
function planFrom(desired: FilterTable, actual: ActualTable, first: readonly Message[]): PolicyBatch {
  const { name: table } = desired;
  const { newSets, newChains, old } = differenceOf(desired, actual);
  const rules = planRules(desired, actual, desired.chains);
  const elements = planSets(desired, actual, desired.sets);
  const messages = [
    ...first,
    ...newSets.map(([name, set]) => addSet(table, name, set)),
    ...newChains.map(([name, { hook }]) => addChain(table, name, hook)),
    ...elements.points,
    ...rules.messages,
    // After the chains that they go to.
    ...elements.maps,
    ...deletions(table, old),
  ];
  return {
    messages,
    ruleOf: rules.ruleOf,
    change: {
      chains: rules.chains + old.chains.length + (actual.isDormant === true ? 1 : 0),
      sets: newSets.length + old.sets.length,
      elements: elements.count,
    },
  };
}

/** Names of chains and sets that are no longer desired. */
interface OldNames {
  readonly chains: readonly string[];
  readonly sets: readonly string[];
}

interface Difference {
  readonly newSets: readonly (readonly [string, FilterSet])[];
  readonly newChains: readonly (readonly [string, FilterChain])[];
  readonly old: OldNames;
}

function differenceOf(desired: FilterTable, actual: ActualTable): Difference {
  return {
    newSets: [...desired.sets].filter(([name]) => !actual.sets.has(name)),
    newChains: [...desired.chains].filter(([name]) => !actual.chains.has(name)),
    old: {
      sets: [...actual.sets.keys()].filter((name) => !desired.sets.has(name)),
      chains: [...actual.chains.keys()].filter((name) => !desired.chains.has(name)),
    },
  };
}

function deletions(table: string, { chains, sets }: OldNames): readonly Message[] {
  return [
    ...chains.map((name) => flushChain(table, name)),
    ...sets.map((name) => deleteSet(table, name)),
    ...chains.map((name) => deleteChain(table, name)),
  ];
}

/** One transaction of several. */
export interface PolicyPart extends PolicyBatch {
  /** Whose chains and sets it fills; undefined for one of all. */
  readonly owner: string | undefined;
}

/** A larger difference is written in parts. */
const MOST_AT_ONCE = 20_000;
/** Rules of chains without an owner in one part. Other work of the process runs between two parts. */
const RULES_AT_ONCE = 5000;
const CHAINS_AT_ONCE = {
  most: RULES_AT_ONCE,
  weightOf: ([, { rules }]: readonly [string, FilterChain]): number => rules.length,
};
const NO_CHANGE: FilterChange = { chains: 0, sets: 0, elements: 0 };

/**
 * Reports whether the difference is too large for one transaction. A table with objects of other kinds is replaced as a whole:
 * without it, everything would be open.
 */
export function needsParts(desired: FilterTable, actual: ActualTable | undefined): boolean {
  if (!canBeParted(desired, actual)) return false;
  const { newSets, newChains } = differenceOf(desired, actual ?? NO_TABLE);
  let entries = 0;
  for (const [, set] of newSets) entries += set.elements.size;
  for (const [, { rules }] of newChains)
    for (const { parts } of rules)
      for (const part of parts)
        entries += part.kind === 'ports' ? part.spans.length : part.kind === 'nets' ? part.nets.length : 1;
  return entries > MOST_AT_ONCE;
}

export function canBeParted(desired: FilterTable, actual: ActualTable | undefined): boolean {
  return actual === undefined || hasDesiredKinds(desired, actual);
}

/**
 * Plans the same change in several transactions, encoded one by one: new chains and sets, which nothing leads to, an owner at a
 * time, and those of none in pieces; then, in one, everything that packets meet; then what they no longer meet.
 */
export function* planPolicyParts(desired: FilterTable, actual: ActualTable = NO_TABLE): Generator<PolicyPart> {
  const { name: table, owners = new Map<string, string>() } = desired;
  const { newSets, newChains, old } = differenceOf(desired, actual);
  const apart = newChains.filter(([, { hook }]) => hook === undefined);
  const setsApart = newSets.filter(([, { kind }]) => kind !== 'interfaces');
  yield {
    owner: undefined,
    messages: [
      ...(actual === NO_TABLE ? [addTable(table)] : wakingOf(desired, actual)),
      ...newSets.map(([name, set]) => addSet(table, name, set)),
      ...apart.map(([name, { hook }]) => addChain(table, name, hook)),
    ],
    ruleOf: new Map(),
    change: { ...NO_CHANGE, sets: newSets.length },
  };
  const ownerOf = ([name]: readonly [string, unknown]): string | undefined => owners.get(name);
  const [chainsOf, setsOf] = [Map.groupBy(apart, ownerOf), Map.groupBy(setsApart, ownerOf)];
  const partOf = (owner: string | undefined, ownSets: typeof newSets, ownChains: typeof newChains): PolicyPart => {
    const filled = planSets(desired, actual, ownSets);
    const { messages, ruleOf, chains } = planRules(desired, actual, ownChains);
    const change = { ...NO_CHANGE, chains, elements: filled.count };
    return { owner, messages: [...filled.points, ...messages], ruleOf, change };
  };
  for (const owner of new Set([...chainsOf.keys(), ...setsOf.keys()])) {
    const ownChains = chainsOf.get(owner) ?? [];
    const pieces = owner === undefined ? slicesByWeight(ownChains, CHAINS_AT_ONCE) : [ownChains];
    const [first = [], ...others] = pieces;
    yield partOf(owner, setsOf.get(owner) ?? [], first);
    for (const piece of others) yield partOf(owner, [], piece);
  }
  const isApart = new Set([...apart, ...setsApart].map(([name]) => name));
  const isLeft = ([name]: readonly [string, unknown]): boolean => !isApart.has(name);
  const rules = planRules(desired, actual, [...desired.chains].filter(isLeft));
  const elements = planSets(desired, actual, [...desired.sets].filter(isLeft));
  const hooks = newChains.filter(isLeft).map(([name, { hook }]) => addChain(table, name, hook));
  yield {
    owner: undefined,
    messages: [...hooks, ...elements.points, ...rules.messages, ...elements.maps],
    ruleOf: rules.ruleOf,
    change: { ...NO_CHANGE, chains: rules.chains, elements: elements.count },
  };
  const change = { ...NO_CHANGE, chains: old.chains.length, sets: old.sets.length };
  yield { owner: undefined, messages: deletions(table, old), ruleOf: new Map(), change };
}

/** Returns messages that take back every part before the one that packets meet. */
export function undoParts(desired: FilterTable, actual: ActualTable | undefined): readonly Message[] {
  if (actual === undefined) return [deleteTable(desired.name)];
  const { newSets, newChains } = differenceOf(desired, actual);
  const chains = newChains.filter(([, { hook }]) => hook === undefined).map(([name]) => name);
  return deletions(desired.name, { chains, sets: newSets.map(([name]) => name) });
}

function planSets(
  { name: table }: FilterTable,
  actual: ActualTable,
  sets: Iterable<readonly [string, FilterSet]>,
): { readonly points: readonly Message[]; readonly maps: readonly Message[]; readonly count: number } {
  const plans = Array.from(sets, ([name, set]) => planElements(table, name, { set, present: actual.sets.get(name) }));
  const leadsToChains = ({ set }: ElementPlan): boolean => set.kind === 'interfaces';
  return {
    points: plans.filter((plan) => !leadsToChains(plan)).flatMap((plan) => plan.messages),
    maps: plans.filter(leadsToChains).flatMap((plan) => plan.messages),
    count: plans.reduce((sum, plan) => sum + plan.count, 0),
  };
}

function planRules(
  { name: table }: FilterTable,
  actual: ActualTable,
  planned: Iterable<readonly [string, FilterChain]>,
): { readonly messages: readonly Message[]; readonly ruleOf: ReadonlyMap<Message, string>; readonly chains: number } {
  const encoder = new RuleEncoder(table);
  const messages: Message[] = [];
  const ruleOf = new Map<Message, string>();
  let chains = 0;
  for (const [name, chain] of planned) {
    const present = actual.chains.get(name);
    if (present !== undefined && isSameChain(chain, present)) continue;
    chains += 1;
    if (present !== undefined) messages.push(flushChain(table, name));
    for (const rule of chain.rules) {
      for (const message of ruleMessages(rule, { table, chain: name }, encoder)) {
        messages.push(message);
        ruleOf.set(message, rule.id);
      }
    }
  }
  return { messages, ruleOf, chains };
}

interface Encoded {
  readonly comment: string;
  /** The message that adds the rule to a chain, unless an anonymous set ties it to one transaction. */
  added?: { readonly place: string; readonly message: Message };
}

/** A chain may come and go with the pods of a node, while its rules stay the same objects. */
const encodings = new WeakMap<TableRule, Encoded>();

function encodingOf(rule: TableRule): Encoded {
  return getOrInsert(encodings, rule, () => ({ comment: `${rule.id} ${digestOfRules([rule])}` }));
}

function ruleMessages(
  rule: TableRule,
  place: { readonly table: string; readonly chain: string },
  encoder: RuleEncoder,
): readonly Message[] {
  const encoding = encodingOf(rule);
  const key = `${place.table} ${place.chain}`;
  if (encoding.added?.place === key) return [encoding.added.message];
  const { sets, expressions } = encoder.encode(rule);
  const message = addRule(place, encoding.comment, expressions);
  if (sets.length === 0) encoding.added = { place: key, message };
  return [...sets, message];
}

function isSameChain(desired: FilterChain, present: ActualChain): boolean {
  if (present.source === desired) return true;
  return (
    present.comments.length === desired.rules.length &&
    desired.rules.every((rule, index) => present.comments[index] === commentOf(rule))
  );
}

/** Returns the comment of the rule in the kernel, from which another run of the program recognizes the rule. */
export function commentOf(rule: TableRule): string {
  return encodingOf(rule).comment;
}

/** Returns the id of a rule with that comment. */
export function idIn(comment: string): string {
  return comment.split(' ')[0] ?? '';
}

interface ElementPlan {
  readonly set: FilterSet;
  readonly messages: readonly Message[];
  readonly count: number;
}

function planElements(
  table: string,
  name: string,
  { set, present }: { readonly set: FilterSet; readonly present: ActualSet | undefined },
): ElementPlan {
  if (present?.source === set) return { set, messages: [], count: 0 };
  const { added, removed } = changeSince(set, present?.source) ?? elementChange(set, present?.elements ?? new Set());
  const messages = [
    ...removals(table, name, { set: keysOnly(set), texts: removed }),
    ...additions(table, name, { set, texts: added }),
  ];
  return { set, messages, count: added.length + removed.length };
}

function elementChange(set: FilterSet, old: ActualSet['elements']): ElementChange {
  const added: string[] = [];
  const removed: string[] = [];
  for (const text of set.elements.keys()) if (!old.has(text)) added.push(text);
  for (const text of old.keys()) if (!set.elements.has(text)) removed.push(text);
  if (isMap(set) && old instanceof Map)
    for (const [text, chain] of set.elements) {
      const before: unknown = old.get(text);
      if (before === undefined || before === chain) continue;
      removed.push(text);
      added.push(text);
    }
  return { added, removed };
}

/** An element of a map is deleted by its key. */
function keysOnly(set: FilterSet): FilterSet {
  return isMap(set) ? { ...set, elements: new Map() } : set;
}

/** Returns what the kernel has after the table was applied. */
export function actualAfter(table: FilterTable, before: ActualTable | undefined): ActualTable {
  const chains = new Map<string, ActualChain>();
  for (const [name, chain] of table.chains) {
    const present = before?.chains.get(name);
    chains.set(
      name,
      present?.source === chain
        ? present
        : { hook: hookText(chain.hook), comments: chain.rules.map(commentOf), source: chain },
    );
  }
  const sets = new Map<string, ActualSet>();
  for (const [name, set] of table.sets) sets.set(name, { shape: setShape(set), elements: set.elements, source: set });
  return { chains, sets };
}
