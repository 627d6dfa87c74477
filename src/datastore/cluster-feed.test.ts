import { describe, expect, it } from 'vitest';
import { atOnce } from '../base/pieces.ts';
import { poolOf } from '../../test/support/fixtures.ts';
import type { NodeName } from '../model/names.ts';
import { parseAddress } from '../net/address.ts';
import { parseCidr } from '../net/cidr.ts';
import { ClusterFeed } from './cluster-feed.ts';
import type { RoutedBlock } from './watch-store.ts';

const [a, b] = ['a', 'b'] as [NodeName, NodeName];
const which = { kind: 'IPPool', name: 'blue' } as const;
const pool = poolOf('blue', '10.0.0.0/24');
const cidr = parseCidr('10.0.0.0/26');
const block: RoutedBlock = { cidr, node: a, borrowed: new Map([[b, [parseAddress('10.0.0.1')]]]) };

describe('what a watcher of the cluster is told', () => {
  it('is everything at first', () => {
    const feed = new ClusterFeed();
    feed.resource(which, { value: pool });
    feed.resource({ kind: 'Node', name: 'n1' }, { problem: 'it is damaged' });
    feed.block(cidr, { value: block });
    expect(atOnce(feed.all())).toEqual({
      kind: 'all',
      resources: [pool],
      blocks: [block],
      problems: ['it is damaged'],
    });
  });

  it('is nothing when only the version of a resource changes', () => {
    const feed = new ClusterFeed();
    const at = (resourceVersion: string): typeof pool => ({ ...pool, metadata: { ...pool.metadata, resourceVersion } });
    expect(feed.resource(which, { value: at('1') })).toEqual([{ kind: 'resource', which, resource: pool }]);
    expect(feed.resource(which, { value: at('2') })).toEqual([]);
  });

  it('is no block twice, and the end of one once', () => {
    const feed = new ClusterFeed();
    expect(feed.block(cidr, { value: block })).toEqual([{ kind: 'block', cidr, block }]);
    expect(feed.block(cidr, { value: { ...block, borrowed: new Map(block.borrowed) } })).toEqual([]);
    const lent = { ...block, borrowed: new Map([[b, [parseAddress('10.0.0.2')]]]) };
    expect(feed.block(cidr, { value: lent })).toEqual([{ kind: 'block', cidr, block: lent }]);
    expect(feed.block(cidr, {})).toEqual([{ kind: 'block', cidr, block: undefined }]);
    expect(feed.block(cidr, {})).toEqual([]);
  });

  it('is a problem with what is left, and that it is over', () => {
    const feed = new ClusterFeed();
    const problem = 'an annotation is nonsense';
    expect(feed.resource(which, { value: pool, problem })).toEqual([
      { kind: 'resource', which, resource: pool, problem },
    ]);
    expect(feed.resource(which, { value: pool })).toEqual([{ kind: 'resource', which, resource: pool }]);
    expect(feed.resource(which, { problem })).toEqual([{ kind: 'resource', which, resource: undefined, problem }]);
  });
});
