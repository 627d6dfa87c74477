import { describe, expect, it } from 'vitest';
import { tableWith } from '../../../test/contract/suites/dataplane/packet-filter.ts';
import { replacementBatch } from './nft-batch.ts';
import { readListing } from './nft-listing.ts';

const AT = { family: 'inet', table: 'wanted' };
const TABLE = { family: 'inet', name: 'wanted' };
const CHAIN = { ...AT, name: 'postrouting', type: 'nat', hook: 'postrouting', prio: 100, policy: 'accept' };
const SET = { ...AT, name: 'addresses', type: 'ipv4_addr', handle: 1, elem: ['192.0.2.1'] };

describe('the batch that replaces a table', () => {
  it('creates a missing table', () => {
    const commands = commandsFor([]);
    expect(commands.slice(0, 2)).toEqual([{ add: { table: TABLE } }, { flush: { table: TABLE } }]);
    expect(commands.slice(2).map((command) => Object.keys(command))).toEqual([['add'], ['add']]);
  });

  it('empties matching sets and keeps matching chains', () => {
    expect(commandsFor([{ chain: CHAIN }, { set: SET }]).slice(2, -2)).toEqual([
      { flush: { set: { ...AT, name: 'addresses' } } },
    ]);
  });

  it('keeps a set whose type nft lists as a single-element array', () => {
    const listed = { ...SET, type: ['ipv4_addr'] };
    expect(commandsFor([{ set: listed }]).slice(2, -2)).toEqual([{ flush: { set: { ...AT, name: 'addresses' } } }]);
  });

  it.each([
    ['a chain with another priority', { chain: { ...CHAIN, prio: 7 } }],
    ['a set of another type', { set: { ...SET, type: 'ipv6_addr' } }],
    ['a map in place of a set', { map: { ...SET, map: 'ipv4_addr' } }],
    ['a counter that is not desired', { counter: { ...AT, name: 'hits', packets: 0, bytes: 0 } }],
  ])('deletes %s', (_what, entry) => {
    const [[kind, { name }]] = Object.entries(entry) as [[string, { name: string }]];
    expect(commandsFor([entry]).slice(2, -2)).toEqual([{ delete: { [kind]: { ...AT, name } } }]);
  });

  it('removes a table without desired objects', () => {
    const batch: unknown = JSON.parse(replacementBatch({ name: 'wanted', objects: [] }, []));
    expect(batch).toEqual({ nftables: [{ add: { table: TABLE } }, { delete: { table: TABLE } }] });
  });
});

describe('the listing of a table', () => {
  it('does not depend on handles or the order of elements', () => {
    const [one, other] = [
      [1, ['192.0.2.1', '192.0.2.2']],
      [2, ['192.0.2.2', '192.0.2.1']],
    ].map(([handle, elem]) => listingOf([{ set: { ...SET, handle, elem } }]));
    expect(one).toEqual(other);
    expect(one).not.toEqual(listingOf([{ set: { ...SET, elem: ['192.0.2.1'] } }]));
  });
});

function listingOf(objects: readonly object[]) {
  return readListing(JSON.stringify({ nftables: [{ metainfo: { version: '1' } }, { table: TABLE }, ...objects] }));
}

function commandsFor(objects: readonly object[]): readonly object[] {
  const batch = replacementBatch(tableWith('192.0.2.1'), listingOf(objects));
  return (JSON.parse(batch) as { nftables: readonly object[] }).nftables;
}
