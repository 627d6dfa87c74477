import { describe, expect, it } from 'vitest';
import type { LeakedReservation } from '../../../cni/leaked-reservations.ts';
import type { WorkloadEndpoint } from '../../../model/workload-endpoint.ts';
import { parseAddress } from '../../../net/address.ts';
import { delegatedFindings } from './delegated-findings.ts';
import type { IpamState, LocalState } from './finding.ts';

const NETWORKS = [{ name: 'net', manager: 'host-local', conf: {} }];
const LEAKED: LeakedReservation = {
  network: 'net',
  containerId: 'c1',
  ifName: 'eth0',
  pod: 'shop/we\u001bb',
  addresses: [parseAddress('10.0.0.2'), parseAddress('fd00::2')],
};
const endpoint = (node: string, network = 'net'): IpamState['endpoints'][number] => ({
  version: '1',
  value: {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name: 'web', namespace: 'shop' },
    spec: {
      orchestrator: 'orch',
      node,
      network,
      containerID: 'c1',
      pod: 'web',
      endpoint: 'eth0',
      interfaceName: 'npl1',
      ipNetworks: ['10.0.0.2/32'],
      ipam: 'host-local',
    } as unknown as WorkloadEndpoint['spec'],
  },
});
const found = (more: Partial<IpamState>, delegated: Partial<LocalState['delegated']>, local: object = {}): string[] =>
  delegatedFindings({
    blocks: [],
    endpoints: [],
    pools: [],
    nodes: [],
    unreadable: [],
    nowMs: 0,
    graceMs: 0,
    local: {
      nodes: new Set(['node-a']),
      links: [],
      attached: new Set(),
      used: new Set(),
      unconnected: [],
      running: [],
      delegated: { networks: NETWORKS, leaked: [], reserved: new Set(), ...delegated },
      ...local,
    },
    ...more,
  }).map(({ id, found: text, repair }) => `${id.replace('ipam/', '')}: ${text} [${repair?.kind ?? ''}]`);
const DEAD =
  'endpoint-without-interface: endpoint shop/web on node node-a: interface "npl1" does not exist on this node [delete-endpoint]';

describe('what another address manager holds for an attachment that has ended', () => {
  it('is a finding with its addresses, and foreign text in it cannot steer a terminal', () => {
    expect(found({}, { leaked: [LEAKED] })).toEqual([
      'leaked-reservation: address 10.0.0.2 and fd00::2: host-local holds it in network "net" for container "c1" of pod "shop/we\\u001bb", whose interface does not exist on this node [end-attachment]',
    ]);
  });

  it('is a finding with its endpoint, also once nothing else of it is left', () => {
    expect(found({ endpoints: [endpoint('node-a')] }, { leaked: [LEAKED] })).toContain(DEAD);
    expect(found({ endpoints: [endpoint('node-a')] }, {})).toEqual([DEAD]);
  });

  it('is no finding while an ADD may be in progress, of another node or of another network', () => {
    expect(found({ endpoints: [endpoint('node-a')] }, { reserved: new Set(['c1/eth0']) })).toEqual([]);
    expect(found({ endpoints: [endpoint('node-a')] }, {}, { attached: new Set(['c1/eth0']) })).toEqual([]);
    expect(found({ endpoints: [endpoint('node-b'), endpoint('node-a', 'other')] }, {})).toEqual([]);
  });
});
