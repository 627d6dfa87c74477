import { newCluster } from '../../src/datastore/keep-cluster-information.ts';
import type { ClusterInformation } from '../../src/model/cluster-information.ts';
import type { HostEndpoint } from '../../src/model/host-endpoint.ts';
import type { IpPool } from '../../src/model/ip-pool.ts';
import type { IpReservation } from '../../src/model/ip-reservation.ts';
import {
  DEFAULT_IPAM_CONFIGURATION,
  type IpamConfiguration,
  type IpamConfigurationSpec,
} from '../../src/model/ipam-configuration.ts';
import type { NodeName } from '../../src/model/names.ts';
import type { NodeMachine } from '../../src/model/node-report.ts';
import type { Node } from '../../src/model/node.ts';
import type { PoolChoice } from '../../src/config/netconf.ts';

/** Resources as tests need them: valid, with what matters given. */
export function poolOf(name: string, cidr: string, spec: Partial<IpPool['spec']> = {}): IpPool {
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'IPPool',
    metadata: { name },
    spec: {
      cidr,
      ipipMode: 'Never',
      vxlanMode: 'Never',
      natOutgoing: false,
      disabled: false,
      disableBGPExport: false,
      blockSize: cidr.includes(':') ? 122 : 26,
      nodeSelector: 'all()',
      allowedUses: ['Workload', 'Tunnel'],
      ...spec,
    },
  };
}

export function reservationOf(name: string, reservedCIDRs: readonly string[]): IpReservation {
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'IPReservation',
    metadata: { name },
    spec: { reservedCIDRs: [...reservedCIDRs] },
  };
}

export function ipamConfigurationOf(spec: Partial<IpamConfigurationSpec>): IpamConfiguration {
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'IPAMConfiguration',
    metadata: { name: 'default' },
    spec: { ...DEFAULT_IPAM_CONFIGURATION, ...spec },
  };
}

export function nodeOf(name: string, labels: Readonly<Record<string, string>> = {}): Node {
  return { apiVersion: 'netplug.io/v3', kind: 'Node', metadata: { name, labels: { ...labels } }, spec: {} };
}

export function hostEndpointOf(
  name: string,
  node: string,
  { labels, ...spec }: Partial<HostEndpoint['spec']> & { readonly labels?: Readonly<Record<string, string>> } = {},
): HostEndpoint {
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'HostEndpoint',
    metadata: { name, ...(labels === undefined ? {} : { labels }) },
    spec: { node, interfaceName: '*', ...spec },
  };
}

/** As the controllers make it. */
export function automaticHostEndpointOf(node: string, labels: Readonly<Record<string, string>> = {}): HostEndpoint {
  return hostEndpointOf(`${node}-auto-hep`, node, {
    labels: { ...labels, 'netplug/created-by': 'netplug-orch-controllers' },
    profiles: ['netplug-default-allow'],
  });
}

/** A machine that has the name of a node. */
export const MACHINE: NodeMachine = { id: 'i', runs: ['r'], hostName: 'h', renewedAt: '2026-12-01T09:21:07Z' };

export function nodeName(text: string): NodeName {
  return text as NodeName;
}

export const ANY_POOL: PoolChoice = { assign: true, pools: undefined };
export const NO_POOL: PoolChoice = { assign: false, pools: undefined };

/** What locks a datastore, or ends that. */
export function lockOf(is: 'locked' | 'unlocked'): ClusterInformation {
  return { ...newCluster(), spec: { datastoreReady: is === 'unlocked' } };
}
