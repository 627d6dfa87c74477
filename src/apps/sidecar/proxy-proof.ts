import { ownValue } from '../../base/own-value.ts';
import { CHECK_CLUSTER, CHECK_PIPE } from '../../mesh/check-filter.ts';
import type { GuardProof } from '../../policy/feed/messages.ts';

type Json = Readonly<Record<string, unknown>>;

/** Filters that only look. One that takes the client's word for its address would let it choose which rules match. */
const LISTENER_FILTERS = ['original_dst', 'tls_inspector', 'http_inspector'];
const ORIGINAL_DST = 'original_dst';
/** Settings of the check that change nothing of whether a request is asked about, and what an answer does. */
const HARMLESS = [
  '@type',
  'transport_api_version',
  'stat_prefix',
  'grpc_service',
  'status_on_error',
  'allowed_headers',
  'disallowed_headers',
  'include_peer_certificate',
  'include_tls_session',
  'send_tls_alert_on_denial',
  'encode_raw_headers',
  'clear_route_cache',
  'with_request_body',
  'metadata_context_namespaces',
  'charge_cluster_response_stats',
];
/** Of a route: the application would see another path than was judged. */
const REWRITES = ['prefix_rewrite', 'regex_rewrite', 'path_rewrite_policy', 'path_rewrite'];

/** A way from a listener to the application. */
interface Way {
  /** `undefined` for what goes to ports without a way of their own. */
  readonly port: number | undefined;
  /** Why a request may pass unasked; undefined when it cannot. */
  readonly fault: string | undefined;
}

/**
 * Reads from the listeners of a proxy (its answer to `config_dump?resource=dynamic_listeners`) for which destination ports each way to
 * the application asks the sidecar about every request. What it does not know counts as a way around.
 */
export function readProof(
  dump: unknown,
  { clusters, proxy }: { readonly clusters: unknown; readonly proxy: string },
): GuardProof {
  const listeners = listenersOf(dump);
  const problems = [
    checkClusterFault(clusters),
    listeners.length === 0 ? 'the proxy has no listener for what the pod receives' : undefined,
    listeners.map(fallbackFault).find((fault) => fault !== undefined),
  ].filter((problem) => problem !== undefined);
  const ways = problems.length > 0 ? [] : listeners.flatMap(waysThrough);
  const ports: number[] = [];
  const open: { port: number; why: string }[] = [];
  for (const [port, list] of Map.groupBy(ways, (way) => way.port)) {
    const why = list.find(({ fault }) => fault !== undefined)?.fault;
    if (port === undefined) continue;
    if (why === undefined) ports.push(port);
    else open.push({ port, why });
  }
  return { ports, open, proxy, problems };
}

/** Returns why checks do not reach this program; undefined when they do. */
function checkClusterFault(dump: unknown): string | undefined {
  const clusters = configsOf(dump).map((config) => objectIn(config, 'cluster'));
  const found = clusters.filter((cluster) => cluster['name'] === CHECK_CLUSTER);
  if (found.length !== 1) return `the proxy has no cluster ${CHECK_CLUSTER}`;
  const endpoints = listIn(objectIn(found[0] ?? {}, 'load_assignment'), 'endpoints').flatMap((each) =>
    listIn(each, 'lb_endpoints'),
  );
  const pipes = endpoints.map((each) => objectIn(objectIn(objectIn(each, 'endpoint'), 'address'), 'pipe')['path']);
  const isOwn = pipes.length === 1 && pipes[0] === CHECK_PIPE;
  return isOwn ? undefined : `the cluster ${CHECK_CLUSTER} of the proxy leads elsewhere than ${CHECK_PIPE}`;
}

function listenersOf(dump: unknown): readonly Json[] {
  return configsOf(dump)
    .map((config) => objectIn(objectIn(config, 'active_state'), 'listener'))
    .filter((listener) => listener['name'] !== undefined && listener['traffic_direction'] !== 'OUTBOUND');
}

/** What no chain matches goes by the chain of last resort, whatever its port. */
function fallbackFault(listener: Json): string | undefined {
  const chain = listener['default_filter_chain'];
  const fault = isObject(chain) ? chainFault(chain) : undefined;
  return fault === undefined ? undefined : `what no chain of the proxy matches: ${fault}`;
}

function waysThrough(listener: Json): readonly Way[] {
  const filters = listIn(listener, 'listener_filters').map(shortName);
  const odd = filters.find((name) => !LISTENER_FILTERS.includes(name));
  const isRedirected = filters.includes(ORIGINAL_DST) || listener['use_original_dst'] === true;
  const address = objectIn(objectIn(listener, 'address'), 'socket_address');
  const own = typeof address['port_value'] === 'number' ? address['port_value'] : undefined;
  return listIn(listener, 'filter_chains').map((chain) => {
    const matched = objectIn(chain, 'filter_chain_match')['destination_port'];
    const port = typeof matched === 'number' ? matched : isRedirected ? undefined : own;
    const fault = odd === undefined ? chainFault(chain) : `listener filter "${odd}" may change who the client is`;
    return { port, fault };
  });
}

/** Returns why what enters the chain may reach the application unasked. A check of connections comes after what a server says first. */
function chainFault(chain: Json): string | undefined {
  const last = listIn(chain, 'filters').at(-1);
  if (last === undefined) return 'a chain has no filters';
  if (isOfType(last, 'HttpConnectionManager')) return requestsFault(configOf(last));
  return isOfType(last, 'TcpProxy')
    ? 'it may carry connections without requests: name its protocol in the Service, such as "appProtocol: http"'
    : `a chain ends in filter "${shortName(last)}", which is not known`;
}

function requestsFault(manager: Json): string | undefined {
  if (!isObject(manager['route_config'])) return 'routes come from elsewhere, and may leave out the check';
  const filters = listIn(manager, 'http_filters');
  const fault = filtersFault(filters);
  if (fault !== undefined) return fault;
  const names = filters.filter(isCheck).map(({ name }) => String(name));
  const disabling = [...valuesOf(manager['route_config'], 'typed_per_filter_config')].find(
    (each) => isObject(each) && names.some((name) => Object.hasOwn(each, name)),
  );
  if (disabling !== undefined) return 'a route has settings of its own for the check';
  const rewriting = REWRITES.find((key) => [...valuesOf(manager['route_config'], key)].length > 0);
  if (rewriting !== undefined) return `a route rewrites the path behind the check (${rewriting})`;
  for (const upgrade of listIn(manager, 'upgrade_configs')) {
    const own = listIn(upgrade, 'filters');
    const faultOfUpgrade = own.length === 0 ? undefined : filtersFault(own);
    if (faultOfUpgrade !== undefined) return `upgrade "${String(upgrade['upgrade_type'])}": ${faultOfUpgrade}`;
  }
  return undefined;
}

/** The check is the last before the router: what comes after it may change the request. */
function filtersFault(filters: readonly Json[]): string | undefined {
  const router = filters.at(-1);
  if (router === undefined || !isOfType(router, 'router.v3.Router')) return 'requests do not end at a router';
  if (listIn(configOf(router), 'upstream_http_filters').length > 0) return 'the router has filters behind the check';
  const before = filters.at(-2);
  const checks = filters.filter(isCheck);
  const fault = faultOfChecks(checks);
  if (fault !== undefined) return fault;
  if (before === undefined || !isCheck(before))
    return `filter "${before === undefined ? '' : shortName(before)}" is between the check and the router`;
  return undefined;
}

function isCheck(filter: Json): boolean {
  return isOfType(filter, 'http.ext_authz.v3.ExtAuthz') && clusterOf(configOf(filter)) === CHECK_CLUSTER;
}

/** Checks of others ask others. */
function faultOfChecks(checks: readonly Json[]): string | undefined {
  const own = checks.filter((each) => clusterOf(configOf(each)) === CHECK_CLUSTER);
  const [first] = own;
  if (first === undefined) return 'requests are not checked by netplug';
  for (const filter of own) {
    if (filter['disabled'] === true) return 'the check is disabled';
    const config = configOf(filter);
    if (config['failure_mode_allow'] === true)
      return 'the check lets pass what it cannot ask about (failure_mode_allow)';
    const odd = Object.keys(config).find((key) => key !== 'failure_mode_allow' && !HARMLESS.includes(key));
    if (odd !== undefined) return `the check has setting "${odd}", and may not ask about everything`;
  }
  return undefined;
}

function clusterOf(config: Json): unknown {
  return objectIn(objectIn(config, 'grpc_service'), 'envoy_grpc')['cluster_name'];
}

function configsOf(dump: unknown): readonly Json[] {
  return isObject(dump) ? listIn(dump, 'configs') : [];
}

function configOf(filter: Json): Json {
  return objectIn(filter, 'typed_config');
}

function isOfType(filter: Json, type: string): boolean {
  const name = configOf(filter)['@type'];
  return typeof name === 'string' && (name.endsWith(`.${type}`) || name.endsWith(`/${type}`));
}

/** Names are chosen by who wrote the configuration: they are only shown. */
function shortName(filter: Json): string {
  return typeof filter['name'] === 'string' ? filter['name'].replace(/^envoy\.filters\.[a-z]+\./, '') : '';
}

/** Yields what stands under the key, at any depth. */
function* valuesOf(value: unknown, key: string): Generator {
  if (Array.isArray(value)) for (const each of value) yield* valuesOf(each, key);
  if (!isObject(value)) return;
  for (const [name, inner] of Object.entries(value)) {
    if (name === key) yield inner;
    yield* valuesOf(inner, key);
  }
}

function objectIn(parent: Json, key: string): Json {
  const value = ownValue(parent, key);
  return isObject(value) ? value : {};
}

function listIn(parent: Json, key: string): readonly Json[] {
  const value = ownValue(parent, key);
  // What is no object is a filter, or a listener, of which nothing is known.
  return Array.isArray(value) ? value.map((each) => (isObject(each) ? each : {})) : [];
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
