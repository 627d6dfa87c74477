import { describe, expect, it } from 'vitest';
import { poolOf } from '../../test/support/fixtures.ts';
import type { FollowedRecord, FollowEvent, FollowStore, RoutedBlock } from '../datastore/follow.ts';
import type { NodeName } from '../model/names.ts';
import { API_VERSION } from '../model/resource.ts';
import { parseAddress } from '../net/address.ts';
import { parseCidr } from '../net/cidr.ts';
import { type ClusterChange, followCluster } from './cluster-view.ts';
import { RecordCache } from './record-cache.ts';

const [a, b] = ['a', 'b'] as [NodeName, NodeName];
const which = { kind: 'IPPool', name: 'blue' } as const;
const cidr = parseCidr('10.0.0.0/26');
const lent = (address: string): RoutedBlock => ({ cidr, node: a, borrowed: new Map([[b, [parseAddress(address)]]]) });

function pool(version: string, range = '10.0.0.0/24'): FollowedRecord {
  const value = poolOf('blue', range);
  const metadata = { ...value.metadata, resourceVersion: version };
  return { kind: 'resource', query: 0, key: 'blue', version, which, value: { ...value, metadata } };
}

const route = (version: string, value?: RoutedBlock, problem?: string): FollowedRecord => ({
  kind: 'route',
  query: 4,
  key: '10.0.0.0/26',
  version,
  value,
  problem,
});
const snapshot = (...records: FollowedRecord[]): FollowEvent => ({ kind: 'snapshot', records, version: '1' });
const changes = (...records: FollowedRecord[]): FollowEvent => ({ kind: 'changes', records, version: '2' });

describe('a cache of records', () => {
  it('returns what differs, each difference once', () => {
    const cache = new RecordCache();
    expect(cache.apply(snapshot(pool('1')))).toHaveLength(1);
    expect(cache.apply(changes(pool('1')))).toEqual([]);
    expect(cache.apply(changes(pool('2')))).toEqual([{ before: pool('1'), after: pool('2') }]);
    expect(cache.version).toBe('2');
  });

  it('returns deletions that a later snapshot shows, as after a disconnection', () => {
    const cache = new RecordCache();
    cache.apply(snapshot(pool('1'), route('', lent('10.0.0.1'))));
    const deltas = cache.apply(snapshot(pool('1')));
    expect(deltas.map(({ after }) => [after.key, after.value])).toEqual([['10.0.0.0/26', undefined]]);
    expect([...cache.records()]).toEqual([pool('1')]);
  });

  it('returns the whole record before a change of a large one', () => {
    const cache = new RecordCache();
    const large = (name: string): FollowedRecord => {
      const ports = Array.from({ length: 20_000 }, (_, index) => 2 * index + 1);
      const spec = {
        selector: `x == '${name}'`,
        types: ['Ingress' as const],
        ingress: [{ action: 'Allow' as const, destination: { ports } }],
      };
      const big = { kind: 'NetworkPolicy', name: 'big' } as const;
      const value = { apiVersion: API_VERSION, kind: big.kind, metadata: { name: big.name }, spec } as const;
      return { kind: 'resource', query: 0, key: 'big', version: '', which: big, value };
    };
    expect(cache.apply(snapshot(large('one')))).toHaveLength(1);
    expect(cache.apply(changes(large('one')))).toEqual([]);
    expect(cache.apply(changes(large('two')))).toEqual([{ before: large('one'), after: large('two') }]);
    expect([...cache.records()]).toEqual([large('two')]);
  });

  it('ignores a deletion of a record that it does not hold', () => {
    expect(new RecordCache().apply(changes(route('')))).toEqual([]);
  });
});

describe('the view of the cluster', () => {
  const see = async (...events: FollowEvent[]): Promise<ClusterChange[]> => {
    const store: FollowStore = {
      // oxlint-disable-next-line typescript/require-await -- a stream of events that are there
      follow: async function* () {
        yield* events;
      },
    };
    const seen: ClusterChange[] = [];
    for await (const change of followCluster(store, a, new AbortController().signal)) seen.push(change);
    return seen;
  };

  it('begins with everything, problems included', async () => {
    const damaged: FollowedRecord = { ...pool('1'), key: 'n1', value: undefined, problem: 'it is damaged' };
    const [first] = await see(snapshot(pool('1'), damaged, route('', lent('10.0.0.1'))));
    expect(first).toEqual({
      kind: 'all',
      resources: [poolOf('blue', '10.0.0.0/24')],
      blocks: [lent('10.0.0.1')],
      problems: ['it is damaged'],
    });
  });

  it('leaves out a change of nothing but the version', async () => {
    const first = snapshot(pool('1'), route('1', lent('10.0.0.1')));
    expect(await see(first, changes(pool('2'), route('2', lent('10.0.0.1'))))).toHaveLength(1);
    const [, changed] = await see(first, changes(pool('2', '10.1.0.0/24')));
    expect(changed).toEqual({ kind: 'resource', which, resource: poolOf('blue', '10.1.0.0/24') });
  });

  it('reports a problem with what is left of a record, and its end', async () => {
    const problem = 'an annotation is nonsense';
    const value = lent('10.0.0.1');
    const [, ...rest] = await see(
      snapshot(),
      changes(route('', value, problem)),
      changes(route('', value)),
      changes(route('')),
    );
    expect(rest).toEqual([
      { kind: 'block', cidr, block: value, problem },
      { kind: 'block', cidr, block: value },
      { kind: 'block', cidr, block: undefined },
    ]);
  });
});
