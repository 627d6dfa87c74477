import { describe, expect, it } from 'vitest';
import type { ClusterChange } from '../cache/cluster-view.ts';
import type { RoutedBlock } from '../datastore/follow.ts';
import type { NodeName } from '../model/names.ts';
import type { Node } from '../model/node.ts';
import { API_VERSION } from '../model/resource.ts';
import { type Cidr, formatCidr, parseCidr } from '../net/cidr.ts';
import { ClusterState } from './cluster-state.ts';

const NAME = 'b' as NodeName;

function learnNode(state: ClusterState, podCIDRs: readonly string[]): readonly string[] {
  const resource: Node = { apiVersion: API_VERSION, kind: 'Node', metadata: { name: NAME }, spec: { podCIDRs } };
  const touched = state.learn({ kind: 'resource', which: { kind: 'Node', name: NAME }, resource }, 0);
  return touched === 'all' ? ['all'] : touched.blocks.toSorted();
}

function blocksOf(state: ClusterState): readonly string[] {
  return state
    .blocksOf(NAME)
    .map(({ cidr }) => formatCidr(cidr))
    .toSorted();
}

describe('with USE_POD_CIDR', () => {
  it('the pod CIDRs of a node are its blocks, and follow it [auth-podcidr]', () => {
    const state = new ClusterState('pod-cidrs');
    expect(learnNode(state, ['10.65.1.0/24', 'fd00:65:1::/64'])).toEqual(['10.65.1.0/24', 'fd00:65:1::/64']);
    expect(blocksOf(state)).toEqual(['10.65.1.0/24', 'fd00:65:1::/64']);
    expect(learnNode(state, ['10.65.2.0/24'])).toEqual(['10.65.1.0/24', '10.65.2.0/24', 'fd00:65:1::/64']);
    expect(blocksOf(state)).toEqual(['10.65.2.0/24']);
  });

  it('blocks of the address manager count for nothing [auth-podcidr]', () => {
    const state = new ClusterState('pod-cidrs');
    const cidr = parseCidr('10.65.3.0/26');
    expect(state.learn({ kind: 'block', cidr, block: { cidr, node: NAME, borrowed: new Map() } }, 0)).toEqual({
      blocks: [],
      nodes: [],
    });
    expect(blocksOf(state)).toEqual([]);
  });
});

describe('everything told anew', () => {
  const [kept, unread] = [parseCidr('10.65.3.0/26'), parseCidr('10.65.3.64/26')];
  const claimed = (cidr: Cidr): RoutedBlock => ({ cidr, node: NAME, borrowed: new Map() });
  const listing = (blocks: readonly RoutedBlock[], problems: readonly string[]): ClusterChange => ({
    kind: 'all',
    resources: [],
    blocks,
    problems,
  });

  it('leaves a block that cannot be read as it was', () => {
    const state = new ClusterState('claims');
    state.learn(listing([claimed(kept), claimed(unread)], []), 0);
    state.learn(listing([claimed(kept)], ['block 10.65.3.64/26 names no ordinals']), 0);
    expect(blocksOf(state)).toEqual(['10.65.3.0/26', '10.65.3.64/26']);
  });

  it('takes away a block that is gone', () => {
    const state = new ClusterState('claims');
    state.learn(listing([claimed(kept), claimed(unread)], []), 0);
    state.learn(listing([claimed(kept)], []), 0);
    expect(blocksOf(state)).toEqual(['10.65.3.0/26']);
  });
});

describe('without USE_POD_CIDR', () => {
  it('pod CIDRs count for nothing', () => {
    const state = new ClusterState('claims');
    expect(learnNode(state, ['10.65.1.0/24'])).toEqual([]);
    expect(blocksOf(state)).toEqual([]);
  });
});
