import { describe, expect, it } from 'vitest';
import type { HostEvent } from '../../../dataplane/host-network.ts';
import type { ClusterChange } from '../../../cache/cluster-view.ts';
import type { RoutedBlock } from '../../../datastore/follow.ts';
import type { NodeName } from '../../../model/names.ts';
import { parseCidr } from '../../../net/cidr.ts';
import { PARTS } from './network-parts.ts';
import { isOfNode, partsAfterChange, partsAfterHostEvent } from './parts-after-change.ts';

const [OWN, OTHER] = ['own', 'other'] as [NodeName, NodeName];
const CIDR = parseCidr('10.0.0.0/28');
const blockOf = (node: NodeName, ...borrowers: readonly NodeName[]): RoutedBlock => ({
  cidr: CIDR,
  node,
  borrowed: new Map(borrowers.map((each) => [each, []])),
});
const blockChange = (block: RoutedBlock | undefined): ClusterChange => ({ kind: 'block', cidr: CIDR, block });
const resourceChange = (kind: 'IPPool' | 'Node' | 'BGPPeer', name: string): ClusterChange => ({
  kind: 'resource',
  which: { kind, name },
  resource: undefined,
});
const CONTEXT = { node: OWN, before: undefined, hasTunnelAddressIn: () => false, areClaimsOpen: false };

describe('the parts that depend on a change of the cluster', () => {
  it.each<[string, ClusterChange, object, readonly string[], boolean]>([
    ['are all after a snapshot', { kind: 'all', resources: [], blocks: [], problems: [] }, {}, PARTS, true],
    [
      'are those with addresses after a pool',
      resourceChange('IPPool', 'p'),
      {},
      ['addresses', 'tunnels', 'nat', 'bgp'],
      true,
    ],
    [
      'are the own facts after the own Node',
      resourceChange('Node', OWN),
      {},
      ['addresses', 'tunnels', 'facts', 'bgp'],
      true,
    ],
    ['are sessions after another Node', resourceChange('Node', OTHER), {}, ['bgp'], false],
    [
      'are addresses after another Node while an address is contested',
      resourceChange('Node', OTHER),
      { areClaimsOpen: true },
      ['addresses', 'bgp'],
      false,
    ],
    ['are sessions after a BGP peer', resourceChange('BGPPeer', OWN), { areClaimsOpen: true }, ['bgp'], false],
    ['are announcements after an own block', blockChange(blockOf(OWN)), {}, ['bgp'], false],
    ['are announcements after a block of which the node borrows', blockChange(blockOf(OTHER, OWN)), {}, ['bgp'], false],
    ['are announcements after a block that was own', blockChange(undefined), { before: blockOf(OWN) }, ['bgp'], false],
    ['are none after a block of another node', blockChange(blockOf(OTHER)), {}, [], false],
    [
      'are tunnels after the block of their address has left the node',
      blockChange(blockOf(OTHER)),
      { hasTunnelAddressIn: () => true },
      ['tunnels', 'bgp'],
      true,
    ],
    [
      'are announcements alone while the block of a tunnel stays with the node',
      blockChange(blockOf(OWN)),
      { hasTunnelAddressIn: () => true },
      ['bgp'],
      false,
    ],
  ])('%s', (_, change, context, parts, requiresTunnelAddresses) => {
    expect(partsAfterChange(change, { ...CONTEXT, ...context })).toEqual({ parts, requiresTunnelAddresses });
  });
});

it('tells the own Node from other records of its name', () => {
  expect(
    [resourceChange('Node', OWN), resourceChange('Node', OTHER), resourceChange('BGPPeer', OWN)].map((change) =>
      isOfNode(change, OWN),
    ),
  ).toEqual([true, false, false]);
});

describe('the parts that depend on a change of the host', () => {
  it.each<[string, HostEvent, boolean, readonly string[]]>([
    ['are the addresses after a link', { kind: 'links', devices: ['eth9'] }, false, ['addresses']],
    ['are all routes after one that is used', { kind: 'unknown' }, true, ['addresses', 'tunnels', 'routes']],
    [
      'are forwarding and tunnels after settings of a device',
      { kind: 'settings', devices: ['up0'] },
      false,
      ['addresses', 'tunnels'],
    ],
    ['are forwarding after settings of the host', { kind: 'settings', devices: [] }, false, ['addresses']],
    ['are none after settings of another device', { kind: 'settings', devices: ['docker0'] }, false, []],
    ['are none after settings of a pod', { kind: 'pod-settings' }, false, []],
  ])('%s', (_claim, event, isDrift, expected) => {
    expect(partsAfterHostEvent(event, { isDrift, usesDevice: (device) => device === 'up0' })).toEqual(expected);
  });
});
