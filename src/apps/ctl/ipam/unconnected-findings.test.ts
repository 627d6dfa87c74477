import { describe, expect, it } from 'vitest';
import { takeSlot } from '../../../../test/support/block-edits.ts';
import { poolOf } from '../../../../test/support/fixtures.ts';
import { fromPod } from '../../../model/from-kubernetes/pod.ts';
import { emptyBlock, type IpBlock } from '../../../model/ip-block.ts';
import { handleOf, type NodeName } from '../../../model/names.ts';
import { parseCidr } from '../../../net/cidr.ts';
import type { IpamState, LocalState } from './finding.ts';
import { unconnectedFindings } from './unconnected-findings.ts';

const UNCONNECTED = {
  network: 'net',
  containerId: 'c1',
  ifName: 'eth0',
  pod: 'shop/web',
  podUid: 'u1',
  netns: '/run/netns/cni-1',
};
/** A pod of the API on this node. */
const running = (ip: string): LocalState['running'][number] =>
  fromPod({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'web', namespace: 'shop', uid: 'u1' },
    spec: { nodeName: 'node-a', containers: [] },
    status: { podIPs: [{ ip }, { ip: 'fd00:1::1' }] },
  }).value!;
const NODE = 'node-a' as NodeName;
/** The address 10.0.0.1 is held by a pod of the network. */
const heldIn = (network: string): readonly IpBlock[] => {
  const attachment = { network, containerId: 'c1', ifName: 'eth0' };
  const holder = {
    id: 'a1',
    handle: handleOf(attachment),
    node: NODE,
    ...attachment,
    at: '',
    chosenBy: 'netconf',
  } as const;
  return [takeSlot(emptyBlock(parseCidr('10.0.0.0/26'), NODE), 1, holder)];
};
/** The interface of another pod. */
const LINK: LocalState['links'][number] = {
  name: 'npl2',
  index: 7,
  mac: 'ee:ee:ee:ee:ee:ee',
  mtu: 1500,
  isUp: true,
  addresses: [],
  owner: { containerId: 'c2', ifName: 'eth0', network: 'net' },
};
const ENDPOINT: IpamState['endpoints'][number] = {
  version: '1',
  value: {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name: 'e2' },
    spec: {
      orchestrator: 'cni',
      node: NODE,
      network: 'net',
      containerID: 'c2',
      endpoint: 'eth0',
      interfaceName: 'npl2',
      mac: '',
      ipNetworks: [],
      profiles: [],
      ipam: 'netplug-ipam',
    },
  },
};
const found = (local: Partial<LocalState>, more: Partial<IpamState> = {}): readonly string[] =>
  unconnectedFindings({
    blocks: [],
    endpoints: [],
    pools: [poolOf('blue', '10.0.0.0/16')],
    nodes: [],
    unreadable: [],
    local: {
      nodes: new Set([NODE]),
      links: [],
      attached: new Set(),
      used: new Set(),
      unconnected: [],
      running: [],
      delegated: { networks: [], leaked: [], reserved: new Set() },
      ...local,
    },
    nowMs: 0,
    graceMs: 0,
    ...more,
  }).map(({ id, found: text }) => `${id}: ${text}`);

describe('pods without an interface', () => {
  it('are those whose namespace the runtime has recorded', () => {
    expect(found({ unconnected: [UNCONNECTED] })).toEqual([
      'ipam/pod-without-interface: pod "shop/web" has no interface "eth0", although its network namespace "/run/netns/cni-1" exists',
    ]);
  });

  it('are not those of a namespace that has outlived its pod, where the API tells', () => {
    const local = { unconnected: [UNCONNECTED] };
    expect(found(local, { pods: new Map([['shop/web', 'u1']]) })).toHaveLength(1);
    expect(found(local, { pods: new Map([['shop/web', 'u2']]) })).toEqual([]);
    expect(found(local, { pods: new Map() })).toEqual([]);
  });

  const lost = { running: [running('10.0.0.1')] };

  it('are those for which the API has an address of a pool to which no interface leads', () => {
    const blocks = heldIn('net');
    expect(found({ ...lost, links: [LINK] }, { blocks })).toEqual([
      'ipam/pod-without-interface: pod "shop/web" runs here with 10.0.0.1, to which no interface of this node leads',
    ]);
    expect(found(lost, { blocks, endpoints: [ENDPOINT] })).toHaveLength(1);
    expect(found({ ...lost, links: [LINK], used: new Set(['10.0.0.1']) }, { blocks })).toEqual([]);
    expect(found({ running: [running('192.0.2.1')], links: [LINK] }, { blocks })).toEqual([]);
  });

  it('are not those of a network that another main plugin connects, with or without netplug as address manager', () => {
    const blocks = heldIn('ptp-net');
    expect(found(lost, { blocks })).toEqual([]);
    expect(found({ ...lost, links: [LINK] }, { blocks, endpoints: [ENDPOINT] })).toEqual([]);
    expect(found(lost)).toEqual([]);
  });

  it('are those whose records are gone as well, where netplug connects pods', () => {
    expect(found({ ...lost, links: [LINK] })).toHaveLength(1);
    expect(found(lost, { endpoints: [ENDPOINT] })).toHaveLength(1);
  });

  it('are named once', () => {
    expect(found({ unconnected: [UNCONNECTED], running: [running('10.0.0.1')] })).toHaveLength(1);
  });
});
