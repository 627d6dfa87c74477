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

/** The kinds of problems of the network, apart from errors with a code of their own. */
export const NETWORK_PROBLEMS = {
  cutOff: { code: 'network/cut-off', severity: 'warning' },
  failing: { code: 'network/failing', severity: 'error' },
  /** What was applied before stays in place. */
  behind: { code: 'network/behind', severity: 'warning' },
  addresses: { code: 'network/addresses', severity: 'error' },
  tunnels: { code: 'network/tunnels', severity: 'error' },
  blocks: { code: 'network/refused-blocks', severity: 'error' },
  podLinks: { code: 'network/pod-links', severity: 'error' },
  hostPorts: { code: 'network/host-ports', severity: 'error' },
  records: { code: 'network/records', severity: 'warning' },
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
