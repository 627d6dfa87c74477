/** What the agent does for the network of its node, each by a reconciler of its own. */
export type NetworkPart =
  | 'podFilter'
  | 'tunnelFilter'
  | 'addresses'
  | 'tunnels'
  | 'facts'
  | 'routes'
  | 'nat'
  | 'bgp'
  | 'endpoints'
  | 'passwords';

/** What must have worked once before: an agent that begins must not take down what it does not know yet. */
export const NEEDS: Readonly<Record<NetworkPart, readonly NetworkPart[]>> = {
  podFilter: [],
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
export const PARTS: readonly NetworkPart[] = [
  'podFilter',
  'tunnelFilter',
  'addresses',
  'endpoints',
  'passwords',
  'tunnels',
  'facts',
  'routes',
  'nat',
  'bgp',
];
