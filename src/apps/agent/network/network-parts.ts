/** The parts of the node's network. Each has its own reconciler. */
export const PARTS = [
  'podFilter',
  'podLinks',
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

/** The parts that must have succeeded once before each part runs, so that a starting agent removes nothing it has not read yet. */
export const NEEDS: Readonly<Record<NetworkPart, readonly NetworkPart[]>> = {
  podFilter: [],
  podLinks: [],
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
