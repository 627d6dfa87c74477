// How a proxy of the mesh asks netplug-sidecar: parts of a configuration of Envoy, as JSON.

/** The cluster and the filters have this name. */
export const CHECK_CLUSTER = 'netplug-check';
export const CHECK_FILTER = 'netplug';
/** Abstract name of the socket in the network namespace of the pod. */
export const CHECK_PIPE = '@netplug-check';

const TYPE = 'type.googleapis.com/envoy.extensions';
/** A check takes a fraction of a millisecond; Envoy's own default is 200 ms, and a mesh may set ten minutes. */
const TIMEOUT = '0.5s';

export function checkCluster(): object {
  const http2 = {
    '@type': `${TYPE}.upstreams.http.v3.HttpProtocolOptions`,
    explicit_http_config: { http2_protocol_options: {} },
  };
  const limits = { max_connections: 1024, max_pending_requests: 4096, max_requests: 4096 };
  return {
    name: CHECK_CLUSTER,
    type: 'STATIC',
    connect_timeout: '0.25s',
    circuit_breakers: { thresholds: [limits] },
    typed_extension_protocol_options: { 'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': http2 },
    load_assignment: {
      cluster_name: CHECK_CLUSTER,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { pipe: { path: CHECK_PIPE } } } }] }],
    },
  };
}

/** Asks about each request. An outage is 503, not the 403 of a denial; headers, tokens among them, stay in the proxy. */
export function requestCheck(): object {
  return {
    name: CHECK_FILTER,
    typed_config: {
      '@type': `${TYPE}.filters.http.ext_authz.v3.ExtAuthz`,
      ...common(),
      status_on_error: { code: 503 },
      allowed_headers: { patterns: [{ exact: 'x-none-such' }] },
    },
  };
}

/** Asks about each connection without requests in it. */
export function connectionCheck(): object {
  return {
    name: CHECK_FILTER,
    typed_config: { '@type': `${TYPE}.filters.network.ext_authz.v3.ExtAuthz`, ...common() },
  };
}

function common(): object {
  return {
    transport_api_version: 'V3',
    stat_prefix: CHECK_FILTER,
    grpc_service: { timeout: TIMEOUT, envoy_grpc: { cluster_name: CHECK_CLUSTER } },
  };
}
