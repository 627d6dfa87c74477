/** What the agent does for the network of its node, each by a reconciler of its own. */
export type Part =
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
export const NEEDS: Readonly<Record<Part, readonly Part[]>> = {
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
export const PARTS: readonly Part[] = [
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
