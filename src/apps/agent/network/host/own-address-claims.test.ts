import { expect, it } from 'vitest';
import { nodeName, nodeOf } from '../../../../../test/support/fixtures.ts';
import { virtualClock } from '../../../../base/clock.ts';
import { type Random, seededRandom } from '../../../../base/random.ts';
import type { FollowedRecord, FollowEvent } from '../../../../datastore/follow.ts';
import type { NodeName } from '../../../../model/names.ts';
import { formatAddress, parseAddress } from '../../../../net/address.ts';
import { endsOf } from '../../../../routing/node-ends.ts';
import { CLAIM_SETTLES_MS } from '../../../../routing/judge-claim.ts';
import { OwnAddressClaims } from './own-address-claims.ts';

const never = new AbortController().signal;
const STEP_MS = 100;
/** The age that a view may reach. */
const LAG_MS = CLAIM_SETTLES_MS / 2;

type Records = ReadonlyMap<NodeName, string | undefined>;

interface Member {
  readonly name: NodeName;
  /** What its only interface has. */
  readonly has: string;
  readonly claims: OwnAddressClaims;
  view: Records;
  ownView: Records;
  viewMs: number;
  /** What it has decided to publish and not written yet. */
  pending: { readonly text: string | undefined } | undefined;
}

/** Nodes that decide, write and read in a random order, each with a view that may be old. `records` are from before. */
class Cluster {
  readonly #clock = virtualClock();
  readonly #random: Random;
  readonly members: readonly Member[];
  records: Records;
  /** By name of the node. */
  internalIps: Readonly<Record<string, string>> = {};
  /** Where nodes are kept from each other: in what they follow, or in what each has published of its record. */
  gap: 'followed' | 'published' | undefined;
  /** What others can read of the records. */
  #published: Records;

  constructor(seed: number, have: Readonly<Record<string, string>>, records: Readonly<Record<string, string>>) {
    this.#random = seededRandom(seed);
    this.records = new Map(Object.entries(records).map(([name, text]) => [nodeName(name), text]));
    this.#published = this.records;
    const findResource = async ({ name }: { readonly name: string }): Promise<never> => {
      const addresses = [{ type: 'InternalIP', address: this.internalIps[name] ?? '' }] as const;
      return Promise.resolve({ ...nodeOf(name), spec: { addresses } } as never);
    };
    const followed = { follow: () => this.#follow() };
    const ports = { clock: this.#clock, random: this.#random, store: { findResource }, followed };
    this.members = Object.entries(have).map(([name, has]) => {
      // The record of a node itself comes by another watch than those of others.
      const read = (of: NodeName) => (of === member.name ? member.ownView : member.view).get(of);
      const ends = (of: NodeName) => endsOf({ ...nodeOf(of), spec: { bgp: bgpOf(read(of)) } });
      const state = {
        get nodeNames() {
          return [...member.view.keys()];
        },
        endsOf: ends,
      };
      const member: Member = {
        name: nodeName(name),
        has,
        claims: new OwnAddressClaims(ports, nodeName(name), state),
        view: this.records,
        ownView: this.records,
        viewMs: 0,
        pending: undefined,
      };
      return member;
    });
  }

  async run(ms: number, check: () => void = () => undefined): Promise<void> {
    const untilMs = this.#clock.monotonic() + ms;
    while (this.#clock.monotonic() < untilMs) {
      await this.#clock.sleep(STEP_MS, never);
      const member = this.members[this.#random.int(this.members.length)]!;
      if (this.#random.int(2) === 0) await this.#decide(member);
      else this.#write(member);
      if (this.gap !== 'published') this.#published = this.records;
      for (const each of this.members) {
        if (this.#random.int(20) === 0) each.ownView = this.records;
        if (this.#random.int(20) === 0 || this.#clock.monotonic() - each.viewMs > LAG_MS) this.#read(each);
      }
      check();
    }
  }

  async *#follow(): AsyncGenerator<FollowEvent> {
    const records = [...this.#published].map(([name, text]): FollowedRecord => {
      const which = { kind: 'Node', name } as const;
      const value = { ...nodeOf(name), spec: { bgp: bgpOf(text) } };
      return { kind: 'resource', which, key: name, version: '', query: 0, value };
    });
    yield Promise.resolve({ kind: 'snapshot', records, version: '' } as const);
  }

  #read(member: Member): void {
    if (this.gap === 'followed') return;
    member.view = this.#published;
    member.viewMs = this.#clock.monotonic();
  }

  async #decide(member: Member): Promise<void> {
    const own = { address: parseAddress(member.has), prefixBits: 24, device: 'eth0', mtu: 1500 };
    const interfaces = [{ name: 'eth0', mtu: 1500, isUp: true, isLoopback: false, addresses: [own] }];
    const question = { wanted: new Map([[own.address.family, own]]), before: new Map(), interfaces };
    const { addresses } = await member.claims.decide(question, never);
    const [published] = [...addresses.values()].map(({ address }) => formatAddress(address));
    member.pending = { text: published };
  }

  #write(member: Member): void {
    if (member.pending === undefined) return;
    this.records = new Map([...this.records, [member.name, member.pending.text]]);
    member.pending = undefined;
  }
}

function bgpOf(text: string | undefined): { readonly ipv4Address?: string; readonly ipv6Address?: string } {
  if (text === undefined) return {};
  return text.includes(':') ? { ipv6Address: `${text}/64` } : { ipv4Address: `${text}/24` };
}

const SEEDS = Array.from({ length: 12 }, (_, seed) => seed);
const HOSTS = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '2001:db8::1', '2001:db8::2', '2001:db8::3'] as const;

it.each(SEEDS)(
  'leaves every cycle of exchanged addresses, in whatever order nodes read and write (seed %i)',
  async (seed) => {
    const [a, b, c] = seed % 2 === 0 ? HOSTS.slice(0, 3) : HOSTS.slice(3);
    const have = { a: b!, b: c!, c: a! };
    const cluster = new Cluster(seed, have, { a: a!, b: b!, c: c! });
    await cluster.run(120_000);
    expect(Object.fromEntries(cluster.records)).toEqual(have);
  },
);

it.each(SEEDS)(
  'lets one of several with the same address publish it, and never the later one instead (seed %i)',
  async (seed) => {
    const same = { a: '10.0.2.15', b: '10.0.2.15', c: '10.0.2.15' };
    const holders = (of: Cluster): string[] =>
      [...of.records].flatMap(([name, text]) => (text === undefined ? [] : [name]));
    const fresh = new Cluster(seed, same, {});
    await fresh.run(300_000);
    const settled = holders(fresh);
    expect(settled).toHaveLength(1);
    const joined = new Cluster(seed, same, { c: '10.0.2.15' });
    await joined.run(CLAIM_SETTLES_MS);
    // Neither knows of the other: their views are from before.
    for (const member of joined.members.slice(0, 2)) member.view = new Map();
    await joined.run(120_000, () => expect(joined.records.get(nodeName('c'))).toBe('10.0.2.15'));
    expect(holders(joined)).toEqual(['c']);
  },
);

it.each((['followed', 'published'] as const).flatMap((gap) => SEEDS.slice(0, 4).map((seed) => [gap, seed] as const)))(
  'never lets two keep an address, though nothing newer is %s for longer than a claim takes to settle (seed %i)',
  async (gap, seed) => {
    const cluster = new Cluster(seed, { a: '192.0.2.1', b: '192.0.2.1' }, {});
    cluster.gap = gap;
    await cluster.run(6 * CLAIM_SETTLES_MS);
    cluster.gap = undefined;
    await cluster.run(120_000);
    expect([...cluster.records.values()].filter((text) => text !== undefined)).toHaveLength(1);
  },
);

it('keeps an address that another node publishes as well when the agent of the first one starts again', async () => {
  const cluster = new Cluster(1, { a: '192.0.2.1' }, { a: '192.0.2.1', down: '192.0.2.1' });
  await cluster.run(60_000, () => expect(cluster.records.get(nodeName('a'))).toBe('192.0.2.1'));
});

it.each(SEEDS.slice(0, 4))(
  'gives an address to the node that the orchestrator knows by it, also while another one that has it runs (seed %i)',
  async (seed) => {
    const cluster = new Cluster(seed, { a: '192.0.2.1', b: '192.0.2.1' }, { b: '192.0.2.1' });
    cluster.internalIps = { a: '192.0.2.1', b: '192.0.2.2' };
    await cluster.run(60_000);
    expect(Object.fromEntries(cluster.records)).toEqual({ a: '192.0.2.1', b: undefined });
  },
);
