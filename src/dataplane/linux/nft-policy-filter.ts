import { getOrInsert } from '../../base/get-or-insert.ts';
import { isNetplugError } from '../../base/errors.ts';
import { type Address, FAMILIES, formatAddress } from '../../net/address.ts';
import {
  type FilterAction,
  type FilterChange,
  type ExpiringChange,
  type ExpiringElements,
  type FilterCount,
  type FilterSet,
  type FilterTable,
  type LeftElements,
  PACKET_LOGS,
  type PacketLog,
  type PolicyFilter,
} from '../policy-filter.ts';
import { loadAddon } from './addon.ts';
import { decodeAttributes, attributeText, type Message } from './netlink.ts';
import { KnownListings } from './known-listings.ts';
import { decodeElements } from './listed-elements.ts';
import { decodeExpiring, elementLists, expiringLists } from './nft-elements.ts';
import {
  addElements,
  decodeChain,
  decodeRule,
  decodeSet,
  deleteElements,
  deleteTable,
  dumpChains,
  dumpElements,
  dumpRules,
  dumpSets,
  getElements,
  getTable,
  isDormant,
  type ListedSet,
  listedAttributes,
  listedElements,
  setShape,
} from './nft-messages.ts';
import { NFTA_EXPR } from './nft-numbers.ts';
import { NftSocket } from './nft-socket.ts';
import {
  type ActualChain,
  type ActualSet,
  type ActualTable,
  actualAfter,
  canBeParted,
  idIn,
  needsParts,
  planPolicyBatch,
  planPolicyParts,
  type PolicyBatch,
  undoParts,
} from './plan-policy-batch.ts';
import { isTableOvertaken, ofOwner } from './refused-part.ts';

const TRIAL = 'netplug-trial';
const WITHDRAWALS = 3;
/** While another program removes the table again and again. */
const MOST_ATTEMPTS = 5;
const NFTA_COUNTER = { BYTES: 1, PACKETS: 2 } as const;

/** A table of nftables in the network namespace of the thread that opened it, by netlink messages of its own. */
export class NftPolicyFilter implements PolicyFilter, Disposable {
  readonly #socket: NftSocket;
  /** By table; missing when it must be read. */
  readonly #known = new Map<string, ActualTable>();
  /** By table. */
  readonly #listings = new Map<string, KnownListings>();

  private constructor(socket: NftSocket) {
    this.#socket = socket;
  }

  /** Opens a filter for the namespace of the calling thread; `addonPath` is for a bundle without netns.node. */
  static open(addonPath?: string): NftPolicyFilter {
    return new NftPolicyFilter(NftSocket.open(loadAddon(addonPath)));
  }

  /** The port of its socket. It is known before the first change, because each call reads first. */
  get port(): number | undefined {
    return this.#socket.port;
  }

  async apply(
    table: FilterTable,
    { signal, reread = false }: { readonly signal: AbortSignal; readonly reread?: boolean },
  ): Promise<FilterChange> {
    for (let attempt = 1; ; attempt += 1) {
      signal.throwIfAborted();
      const known = reread || attempt > 1 ? undefined : this.#known.get(table.name);
      try {
        // Parts tell whose the kernel refuses.
        return await this.#applyTo(table, known ?? (await this.#read(table, signal)), { inParts: attempt > 1 });
      } catch (cause) {
        // Another program may have changed the table: its actual state decides whether the desired one can be reached.
        if (attempt >= (isTableOvertaken(cause) ? MOST_ATTEMPTS : 2)) throw cause;
      }
    }
  }

  async missingLogs(signal: AbortSignal): Promise<ReadonlySet<PacketLog>> {
    const missing = new Set<PacketLog>();
    for (const kind of PACKET_LOGS) {
      signal.throwIfAborted();
      if (!(await this.#takes(kind))) missing.add(kind);
    }
    return missing;
  }

  async has(table: string, signal: AbortSignal): Promise<boolean> {
    signal.throwIfAborted();
    return (await this.#socket.list(`look for the nftables table "${table}"`, getTable(table))).length > 0;
  }

  async create(table: FilterTable, signal: AbortSignal): Promise<boolean> {
    signal.throwIfAborted();
    if (await this.has(table.name, signal)) return false;
    try {
      await this.#applyTo(table, undefined);
      return true;
    } catch (cause) {
      if (await this.has(table.name, signal)) return false;
      throw cause;
    }
  }

  async extend(table: string, sets: ReadonlyMap<string, FilterSet>, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const messages = (await this.#listSets(table)).flatMap(({ name, shape }) => {
      const set = sets.get(name);
      if (set === undefined || setShape(set) !== shape) return [];
      return elementLists(set, set.elements.keys()).map((elements) => addElements(table, name, { elements }));
    });
    if (messages.length > 0) this.#known.delete(table);
    await this.#socket.commit(`add elements to sets of the nftables table "${table}"`, messages);
  }

  async expiring(table: string, signal: AbortSignal): Promise<ExpiringElements> {
    signal.throwIfAborted();
    const found = new Map<string, ReadonlyMap<string, number>>();
    for (const { name, set } of await this.#listKinds(table, EXPIRING))
      found.set(
        name,
        decodeExpiring(
          set,
          (await this.#listElements(table, name)).flatMap((body) => [...listedElements(body)]),
        ),
      );
    return found;
  }

  async renew(table: string, { removed, added }: ExpiringChange, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const sets = await this.#listKinds(table, EXPIRING);
    const messages = [
      ...sets.flatMap(({ name, set }) =>
        elementLists(set, removed.get(name) ?? []).map((elements) => deleteElements(table, name, { elements })),
      ),
      ...sets.flatMap(({ name, set }) =>
        expiringLists(set, added.get(name) ?? new Map()).map((elements) => addElements(table, name, { elements })),
      ),
    ];
    await this.#socket.commit(`change what expires in the nftables table "${table}"`, messages);
  }

  async withdraw(table: string, left: LeftElements, signal: AbortSignal): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      signal.throwIfAborted();
      const messages = await this.#deletionsOf(table, left);
      if (messages.length === 0) return;
      this.#known.delete(table);
      try {
        return await this.#socket.commit(`remove elements of sets of the nftables table "${table}"`, messages);
      } catch (cause) {
        // Another process may have removed an element meanwhile.
        if (attempt === WITHDRAWALS) throw cause;
      }
    }
  }

  async ruleIds(table: string, signal: AbortSignal): Promise<ReadonlySet<string>> {
    signal.throwIfAborted();
    const bodies = await this.#socket.list('list the rules of policies', dumpRules(table));
    return new Set(bodies.map((body) => idIn(decodeRule(body).comment)));
  }

  async counts(table: string, signal: AbortSignal): Promise<readonly FilterCount[]> {
    signal.throwIfAborted();
    const counts = new Map<string, FilterCount>();
    for (const body of await this.#socket.list('read the counters of policies', dumpRules(table))) {
      const { chain, comment, expressions } = decodeRule(body);
      const count = countIn(expressions);
      if (count === undefined) continue;
      const rule = idIn(comment);
      const key = `${chain} ${rule}`;
      const { packets, bytes } = counts.get(key) ?? { packets: 0n, bytes: 0n };
      counts.set(key, { chain, rule, packets: packets + count.packets, bytes: bytes + count.bytes });
    }
    return [...counts.values()];
  }

  async remove(table: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#known.delete(table);
    this.#listings.delete(table);
    if (!(await this.has(table, signal))) return;
    await this.#socket.commit(`remove the nftables table "${table}"`, [deleteTable(table)]);
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]();
  }

  /** Returns messages that delete the elements that the table has now. */
  async #deletionsOf(table: string, { interfaces, addresses }: LeftElements): Promise<readonly Message[]> {
    const sets = await this.#listKinds(table, WITHDRAWN);
    const points = sets.flatMap(({ name, set }) =>
      textsIn(set, interfaces, addresses).flatMap((text) =>
        elementLists(set, [text]).map((elements) => ({ name, elements })),
      ),
    );
    const exist = await this.#socket.existEach(
      'look for elements of sets of policies',
      points.map(({ name, elements }) => getElements(table, name, { elements })),
    );
    const keys = points.filter((_, index) => exist[index] === true);
    for (const { name, set } of sets) {
      if (set.kind !== 'services' || !addresses.some(({ family }) => family === set.family)) continue;
      const texts = [...(await decodeElements(set, await this.#listElements(table, name))).keys()];
      const own = texts.filter((text) => addresses.some((address) => text.startsWith(`${formatAddress(address)} `)));
      for (const elements of elementLists(set, own)) keys.push({ name, elements });
    }
    return keys.map(({ name, elements }) => deleteElements(table, name, { elements }));
  }

  /** The trial table exists within one transaction only. */
  async #takes(kind: PacketLog): Promise<boolean> {
    const action: FilterAction = kind === 'log' ? { kind, prefix: TRIAL } : { kind, group: 0, prefix: TRIAL };
    const chains = new Map([[TRIAL, { rules: [{ id: TRIAL, parts: [action] }] }]]);
    const { messages } = planPolicyBatch({ name: TRIAL, chains, sets: new Map() }, undefined);
    try {
      await this.#socket.commit(`try a rule with "${kind}"`, [...messages, deleteTable(TRIAL)], () => TRIAL);
      return true;
    } catch (cause) {
      if (isNetplugError(cause) && cause.facts['rule'] === TRIAL) return false;
      throw cause;
    }
  }

  async #applyTo(
    table: FilterTable,
    actual: ActualTable | undefined,
    { inParts = false }: { readonly inParts?: boolean } = {},
  ): Promise<FilterChange> {
    const isParted = inParts ? canBeParted(table, actual) : needsParts(table, actual);
    this.#known.delete(table.name);
    const change = isParted ? await this.#applyParts(table, actual) : await this.#applyWhole(table, actual);
    this.#known.set(table.name, actualAfter(table, actual));
    return change;
  }

  async #applyWhole(table: FilterTable, actual: ActualTable | undefined): Promise<FilterChange> {
    const { change, ...batch } = planPolicyBatch(table, actual);
    await this.#commit(table.name, batch);
    return change;
  }

  async #applyParts(table: FilterTable, actual: ActualTable | undefined): Promise<FilterChange> {
    let change: FilterChange = { chains: 0, sets: 0, elements: 0 };
    let hasBegun = false;
    for (const part of planPolicyParts(table, actual)) {
      await this.#commit(table.name, part).catch(async (cause: unknown) => {
        if (hasBegun) await this.#undoParts(table, actual);
        throw ofOwner(cause, part);
      });
      hasBegun = true;
      change = {
        chains: change.chains + part.change.chains,
        sets: change.sets + part.change.sets,
        elements: change.elements + part.change.elements,
      };
    }
    return change;
  }

  /** Removes what no packet meets yet. Does nothing when the table is gone, or the last parts were the ones that failed. */
  async #undoParts(table: FilterTable, actual: ActualTable | undefined): Promise<void> {
    const undo = { messages: undoParts(table, actual), ruleOf: new Map<Message, string>() };
    await this.#commit(table.name, undo).catch(() => undefined);
  }

  async #commit(table: string, { messages, ruleOf }: Pick<PolicyBatch, 'messages' | 'ruleOf'>): Promise<void> {
    await this.#socket.commit(`change the nftables table "${table}"`, messages, (each) => ruleOf.get(each));
  }

  /** Returns undefined when there is no table. Reads elements of desired sets only: others are deleted as a whole. */
  async #read(desired: FilterTable, signal: AbortSignal): Promise<ActualTable | undefined> {
    signal.throwIfAborted();
    const [found] = await this.#socket.list(`look for the nftables table "${desired.name}"`, getTable(desired.name));
    if (found === undefined) return undefined;
    const chains = await this.#readChains(desired.name);
    const sets = new Map<string, ActualSet>();
    const listings = getOrInsert(this.#listings, desired.name, () => new KnownListings());
    for (const listed of await this.#listSets(desired.name))
      sets.set(listed.name, await this.#readSet(desired, listed, listings));
    listings.complete();
    return { chains, sets, isDormant: isDormant(found) };
  }

  async #listSets(table: string): Promise<readonly ListedSet[]> {
    const listed = await this.#socket.list('list the sets of policies', dumpSets(table));
    return listed.map(decodeSet).filter((set) => set !== undefined);
  }

  /** Returns the sets of these kinds, each with an empty set of its kind. */
  async #listKinds(table: string, kinds: readonly FilterSet[]): Promise<readonly { name: string; set: FilterSet }[]> {
    return (await this.#listSets(table)).flatMap(({ name, shape }) => {
      const set = kinds.find((each) => setShape(each) === shape);
      return set === undefined ? [] : [{ name, set }];
    });
  }

  async #listElements(table: string, name: string): Promise<readonly Buffer[]> {
    return this.#socket.list(`list the elements of the set "${name}"`, dumpElements(table, name));
  }

  async #readSet(desired: FilterTable, { name, shape }: ListedSet, listings: KnownListings): Promise<ActualSet> {
    const set = desired.sets.get(name);
    if (set === undefined || setShape(set) !== shape || expires(set)) return { shape, elements: new Set() };
    return { shape, ...(await listings.read(name, set, await this.#listElements(desired.name, name))) };
  }

  async #readChains(table: string): Promise<ReadonlyMap<string, ActualChain>> {
    const chains = new Map<string, ActualChain & { readonly comments: string[] }>();
    for (const body of await this.#socket.list('list the chains of policies', dumpChains())) {
      const chain = decodeChain(body);
      if (chain.table === table) chains.set(chain.name, { hook: chain.hook, comments: [] });
    }
    for (const body of await this.#socket.list('list the rules of policies', dumpRules(table))) {
      const { chain, comment } = decodeRule(body);
      chains.get(chain)?.comments.push(comment);
    }
    return chains;
  }
}

/** Kinds of sets with elements of pods. */
const WITHDRAWN: readonly FilterSet[] = [
  { kind: 'interfaces', elements: new Map() },
  ...FAMILIES.flatMap((family): FilterSet[] => [
    { kind: 'addresses', family, elements: new Set() },
    { kind: 'services', family, elements: new Set() },
  ]),
];

const EXPIRING: readonly FilterSet[] = FAMILIES.flatMap((family): FilterSet[] => [
  { kind: 'flows', family, elements: new Set() },
  { kind: 'cut addresses', family, elements: new Set() },
]);

/** Returns the elements that are one point of a set of the kind. */
function textsIn(set: FilterSet, interfaces: readonly string[], addresses: readonly Address[]): readonly string[] {
  if (set.kind === 'interfaces') return interfaces;
  if (set.kind !== 'addresses') return [];
  return addresses.filter(({ family }) => family === set.family).map(formatAddress);
}

/** Reports whether the elements are none of the desired state. */
function expires({ kind }: FilterSet): boolean {
  return kind === 'limits' || kind === 'flows' || kind === 'cut addresses';
}

/** Returns the counter among the expressions of a rule. */
function countIn(expressions: Buffer): Pick<FilterCount, 'packets' | 'bytes'> | undefined {
  for (const attributes of listedAttributes(expressions)) {
    const [name, data] = [attributes.get(NFTA_EXPR.NAME), attributes.get(NFTA_EXPR.DATA)];
    if (name === undefined || data === undefined || attributeText(name) !== 'counter') continue;
    const [bytes, packets] = [NFTA_COUNTER.BYTES, NFTA_COUNTER.PACKETS].map((type) => decodeAttributes(data).get(type));
    return { packets: packets?.readBigUInt64BE() ?? 0n, bytes: bytes?.readBigUInt64BE() ?? 0n };
  }
  return undefined;
}
