import { checkCluster, connectionCheck, requestCheck } from './check-filter.ts';

/** Label of pods whose proxy asks: the injection template sets it. */
export const SIDECAR_LABEL = { 'netplug.io/sidecar': 'enabled' } as const;
export const FILTER_NAME = 'netplug';

/** Of the mesh, whose filters apply to all namespaces. */
export const ROOT_NAMESPACE = 'istio-system';

const CONTEXT = 'SIDECAR_INBOUND';
/** After all other filters are in their places: next to the router, also where others insert theirs there. */
const PRIORITY = 1_000_000;

/** Returns the object of the mesh that has the proxies of labelled pods ask their sidecar. */
export function envoyFilter(namespace: string = ROOT_NAMESPACE): object {
  const before = (filter: object): object => ({ context: CONTEXT, listener: { filterChain: { filter } } });
  return {
    apiVersion: 'networking.istio.io/v1alpha3',
    kind: 'EnvoyFilter',
    metadata: { name: FILTER_NAME, namespace },
    spec: {
      priority: PRIORITY,
      workloadSelector: { labels: SIDECAR_LABEL },
      configPatches: [
        { applyTo: 'CLUSTER', match: { context: CONTEXT }, patch: { operation: 'ADD', value: checkCluster() } },
        {
          applyTo: 'HTTP_FILTER',
          match: before({
            name: 'envoy.filters.network.http_connection_manager',
            subFilter: { name: 'envoy.filters.http.router' },
          }),
          patch: { operation: 'INSERT_BEFORE', value: requestCheck() },
        },
        {
          applyTo: 'NETWORK_FILTER',
          match: before({ name: 'envoy.filters.network.tcp_proxy' }),
          patch: { operation: 'INSERT_BEFORE', value: connectionCheck() },
        },
      ],
    },
  };
}
