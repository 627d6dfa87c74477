import { MESH_PORTS } from '../model/declared-sidecar.ts';
import type { PolicyView } from './policy-view.ts';
import type { EndpointPort, PolicyEndpoint, PolicyRule } from './resolved-policy.ts';

/** Reports whether a rule for what reaches the endpoint is about requests, or about accounts, which certificates name. */
export function asksForRequests(view: PolicyView, endpoint: PolicyEndpoint): boolean {
  return ingressRules(view, endpoint).some(({ http, source }) => http !== undefined || source.accounts !== undefined);
}

/** Reports whether a rule in force for what reaches the endpoint is about requests. */
export function hasRequestRules(view: PolicyView, endpoint: PolicyEndpoint): boolean {
  const isOne = ({ http }: PolicyRule): boolean => http !== undefined;
  return (
    view.tiers.some((tier) =>
      view
        .policiesOf(endpoint, tier, 'ingress')
        .some(({ isStaged, rules: { ingress = [] } }) => !isStaged && ingress.some(isOne)),
    ) || endpoint.profiles.some((name) => view.profile(name)?.rules.ingress.some(isOne) === true)
  );
}

const TCP = 6;
/** Each is an element of a set for each address: a range of all ports would fill the set of all pods of the node. */
const MOST_OF_RANGE = 64;
const MOST_PORTS = 256;

/**
 * Returns the TCP ports of the endpoint to which rules about requests could open it: those that it declares, and others that they name.
 * Rules without ports mean none of the mesh's own programs.
 */
export function requestPortsOf(view: PolicyView, endpoint: PolicyEndpoint): ReadonlySet<number> {
  const rules = ingressRules(view, endpoint).filter(({ http }) => http !== undefined);
  if (rules.length === 0) return new Set();
  const named = rules.flatMap(({ destination: { ports } }) => ports?.ranges ?? []);
  const ports = named.flatMap(({ first, last }) =>
    Array.from({ length: Math.min(MOST_OF_RANGE, last - first + 1) }, (_, at) => first + at),
  );
  const declared = endpoint.ports.filter(
    ({ protocol, ...each }) => protocol === TCP && rules.some((rule) => mayOpen(rule, each)),
  );
  return new Set([...declared.map(({ port }) => port), ...ports].slice(0, MOST_PORTS));
}

function mayOpen({ destination: { ports } }: PolicyRule, { name, port }: Pick<EndpointPort, 'name' | 'port'>): boolean {
  if (ports === undefined) return !MESH_PORTS.includes(port);
  return ports.names.includes(name) || ports.ranges.some(({ first, last }) => first <= port && port <= last);
}

function ingressRules(view: PolicyView, endpoint: PolicyEndpoint): readonly PolicyRule[] {
  return [
    ...view.tiers.flatMap((tier) =>
      view.policiesOf(endpoint, tier, 'ingress').flatMap(({ rules: { ingress = [] } }) => ingress),
    ),
    ...endpoint.profiles.flatMap((name) => view.profile(name)?.rules.ingress ?? []),
  ];
}
