import { describe, expect, it } from 'vitest';
import { poolOf } from '../../../../test/support/fixtures.ts';
import { fromPod } from '../../../model/from-kubernetes/pod.ts';
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
const found = (local: Partial<LocalState>, more: Partial<IpamState> = {}): readonly string[] =>
  unconnectedFindings({
    blocks: [],
    endpoints: [],
    pools: [poolOf('blue', '10.0.0.0/16')],
    nodes: [],
    unreadable: [],
    local: {
      nodes: new Set(['node-a']),
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

  it('are those for which the API has an address of a pool to which no interface leads', () => {
    expect(found({ running: [running('10.0.0.1')] })).toEqual([
      'ipam/pod-without-interface: pod "shop/web" runs here with 10.0.0.1, to which no interface of this node leads',
    ]);
    expect(found({ running: [running('10.0.0.1')], used: new Set(['10.0.0.1']) })).toEqual([]);
    expect(found({ running: [running('192.0.2.1')] })).toEqual([]);
  });

  it('are named once', () => {
    expect(found({ unconnected: [UNCONNECTED], running: [running('10.0.0.1')] })).toHaveLength(1);
  });
});
