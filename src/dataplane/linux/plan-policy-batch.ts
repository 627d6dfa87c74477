import type { FilterChain, FilterChange, FilterSet, FilterTable, TableRule } from '../policy-filter.ts';
import { digestOfRules } from '../rule-digest.ts';
import type { Message } from './netlink.ts';
import { elementLists } from './nft-elements.ts';
import { RuleEncoder } from './nft-expressions.ts';
import {
  addChain,
  addElements,
  addRule,
  addSet,
  addTable,
  deleteChain,
  deleteElements,
  deleteSet,
  deleteTable,
  flushChain,
  hookText,
  setShape,
} from './nft-messages.ts';

/** Chains and sets that the kernel has of a table. */
export interface ActualTable {
  readonly chains: ReadonlyMap<string, ActualChain>;
  readonly sets: ReadonlyMap<string, ActualSet>;
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
  return planFrom(desired, actual, []);
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
  const newSets = [...desired.sets].filter(([name]) => !actual.sets.has(name));
  const newChains = [...desired.chains].filter(([name]) => !actual.chains.has(name));
  const oldSets = [...actual.sets.keys()].filter((name) => !desired.sets.has(name));
  const oldChains = [...actual.chains.keys()].filter((name) => !desired.chains.has(name));
  const rules = planRules(desired, actual);
  const elements = [...desired.sets].map(([name, set]) =>
    planElements(table, name, { set, present: actual.sets.get(name) }),
  );
  const leadsToChains = ({ set }: { set: FilterSet }): boolean => set.kind === 'interfaces';
  const messages = [
    ...first,
    ...newSets.map(([name, set]) => addSet(table, name, set)),
    ...newChains.map(([name, { hook }]) => addChain(table, name, hook)),
    ...elements.filter((plan) => !leadsToChains(plan)).flatMap((plan) => plan.messages),
    ...rules.messages,
    // After the chains that they go to.
    ...elements.filter(leadsToChains).flatMap((plan) => plan.messages),
    ...oldChains.map((name) => flushChain(table, name)),
    ...oldSets.map((name) => deleteSet(table, name)),
    ...oldChains.map((name) => deleteChain(table, name)),
  ];
  return {
    messages,
    ruleOf: rules.ruleOf,
    change: {
      chains: rules.chains + oldChains.length,
      sets: newSets.length + oldSets.length,
      elements: elements.reduce((sum, plan) => sum + plan.count, 0),
    },
  };
}

function planRules(
  desired: FilterTable,
  actual: ActualTable,
): { readonly messages: readonly Message[]; readonly ruleOf: ReadonlyMap<Message, string>; readonly chains: number } {
  const encoder = new RuleEncoder(desired.name);
  const messages: Message[] = [];
  const ruleOf = new Map<Message, string>();
  let chains = 0;
  for (const [name, chain] of desired.chains) {
    const present = actual.chains.get(name);
    if (present !== undefined && isSameChain(chain, present)) continue;
    chains += 1;
    if (present !== undefined) messages.push(flushChain(desired.name, name));
    for (const rule of chain.rules) {
      for (const message of ruleMessages(rule, { table: desired.name, chain: name }, encoder)) {
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
  const known = encodings.get(rule);
  if (known !== undefined) return known;
  const fresh = { comment: `${rule.id} ${digestOfRules([rule])}` };
  encodings.set(rule, fresh);
  return fresh;
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
  const old = present?.elements ?? new Set<string>();
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
  const messages = [
    ...elementLists(keysOnly(set), removed).map((elements) => deleteElements(table, name, { elements })),
    ...elementLists(set, added).map((elements) => addElements(table, name, { elements })),
  ];
  return { set, messages, count: added.length + removed.length };
}

/** An element of a map is deleted by its key. */
function keysOnly(set: FilterSet): FilterSet {
  return isMap(set) ? { ...set, elements: new Map() } : set;
}

function isMap(set: FilterSet): set is Extract<FilterSet, { readonly kind: 'interfaces' | 'translations' }> {
  return set.kind === 'interfaces' || set.kind === 'translations';
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
