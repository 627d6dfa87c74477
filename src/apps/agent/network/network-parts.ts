import { NAT_TABLE } from '../../../routing/nat-table.ts';
import { POD_TABLE } from '../../../routing/pod-table.ts';
import { TUNNEL_TABLE } from '../../../routing/tunnel-table.ts';

/** The parts of the node's network. Each has its own reconciler. */
export const PARTS = [
  'podFilter',
  'podLinks',
  'hostPorts',
  'tunnelFilter',
  'addresses',
  'endpoints',
  'passwords',
  'tunnels',
  'facts',
  'routes',
  'nat',
  'bgp',
] as const;

export type NetworkPart = (typeof PARTS)[number];

/** The tables of nftables, each of one part. */
export const TABLES = { podFilter: POD_TABLE, tunnelFilter: TUNNEL_TABLE, nat: NAT_TABLE } as const;

/** The kinds of problems of the network, apart from errors with a code of their own. */
export const NETWORK_PROBLEMS = {
  cutOff: { code: 'network/cut-off', severity: 'warning' },
  failing: { code: 'network/failing', severity: 'error' },
  /** No run has ended since the start. Should none ever end, the agent does not become ready. */
  starting: { code: 'network/starting', severity: 'warning' },
  /** What was applied before stays in place. */
  behind: { code: 'network/behind', severity: 'warning' },
  addresses: { code: 'network/addresses', severity: 'error' },
  tunnels: { code: 'network/tunnels', severity: 'error' },
  blocks: { code: 'network/refused-blocks', severity: 'error' },
  podLinks: { code: 'network/pod-links', severity: 'error' },
  hostPorts: { code: 'network/host-ports', severity: 'error' },
  records: { code: 'network/records', severity: 'warning' },
  flows: {
    code: 'network/flows',
    severity: 'warning',
    remedy: 'Load the module nf_conntrack_netlink; until then a flow ends when it pauses for its timeout',
  },
  tables: {
    code: 'network/tables-changed',
    severity: 'error',
    remedy:
      'Make the program leave tables of others alone: "flush ruleset" removes all of them, "flush table" and "delete table" one',
  },
  tablesUnwatched: { code: 'network/tables-unwatched', severity: 'warning' },
  bgp: { code: 'network/bgp', severity: 'warning' },
} as const;

/** The parts that must have succeeded once before each part runs, so that a starting agent removes nothing it has not read yet. */
export const NEEDS: Readonly<Record<NetworkPart, readonly NetworkPart[]>> = {
  podFilter: [],
  podLinks: [],
  hostPorts: [],
  tunnelFilter: [],
  addresses: [],
  endpoints: [],
  passwords: [],
  tunnels: ['tunnelFilter', 'addresses'],
  facts: ['tunnels'],
  routes: ['tunnels'],
  nat: ['tunnels', 'endpoints'],
  bgp: ['tunnels', 'endpoints', 'passwords'],
};
