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
  const touched = state.apply({ kind: 'resource', which: { kind: 'Node', name: NAME }, resource }, 0);
  return touched === 'all' ? ['all'] : touched.blocks.toSorted();
}

function blocksOf(state: ClusterState): readonly string[] {
  return state
    .blocksOf(NAME)
    .map(({ cidr }) => formatCidr(cidr))
    .toSorted();
}

describe('the cluster state with USE_POD_CIDR', () => {
  it('uses the pod CIDRs of each node as its blocks and updates them with the node [auth-podcidr]', () => {
    const state = new ClusterState('pod-cidrs');
    expect(learnNode(state, ['10.65.1.0/24', 'fd00:65:1::/64'])).toEqual(['10.65.1.0/24', 'fd00:65:1::/64']);
    expect(blocksOf(state)).toEqual(['10.65.1.0/24', 'fd00:65:1::/64']);
    expect(learnNode(state, ['10.65.2.0/24'])).toEqual(['10.65.1.0/24', '10.65.2.0/24', 'fd00:65:1::/64']);
    expect(blocksOf(state)).toEqual(['10.65.2.0/24']);
  });

  it('ignores blocks of the address manager [auth-podcidr]', () => {
    const state = new ClusterState('pod-cidrs');
    const cidr = parseCidr('10.65.3.0/26');
    expect(state.apply({ kind: 'block', cidr, block: { cidr, node: NAME, borrowed: new Map() } }, 0)).toEqual({
      blocks: [],
      nodes: [],
    });
    expect(blocksOf(state)).toEqual([]);
  });
});

describe('a second snapshot of the cluster', () => {
  const [kept, unread] = [parseCidr('10.65.3.0/26'), parseCidr('10.65.3.64/26')];
  const claimed = (cidr: Cidr): RoutedBlock => ({ cidr, node: NAME, borrowed: new Map() });
  const listing = (blocks: readonly RoutedBlock[], problems: readonly string[]): ClusterChange => ({
    kind: 'all',
    resources: [],
    blocks,
    problems,
  });

  it('keeps a block whose record is malformed', () => {
    const state = new ClusterState('claims');
    state.apply(listing([claimed(kept), claimed(unread)], []), 0);
    state.apply(listing([claimed(kept)], ['block 10.65.3.64/26 names no ordinals']), 0);
    expect(blocksOf(state)).toEqual(['10.65.3.0/26', '10.65.3.64/26']);
  });

  it('removes a block that it lacks', () => {
    const state = new ClusterState('claims');
    state.apply(listing([claimed(kept), claimed(unread)], []), 0);
    state.apply(listing([claimed(kept)], []), 0);
    expect(blocksOf(state)).toEqual(['10.65.3.0/26']);
  });
});

describe('the cluster state without USE_POD_CIDR', () => {
  it('ignores pod CIDRs', () => {
    const state = new ClusterState('claims');
    expect(learnNode(state, ['10.65.1.0/24'])).toEqual([]);
    expect(blocksOf(state)).toEqual([]);
  });
});
