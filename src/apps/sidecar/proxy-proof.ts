import { ownValue } from '../../base/own-value.ts';
import { CHECK_CLUSTER, CHECK_PIPE } from '../../mesh/check-filter.ts';
import { type Family, tryParseAddress } from '../../net/address.ts';
import type { GuardProof } from '../../policy/feed/messages.ts';
import {
  LISTENER_FILTERS,
  OF_ACTION,
  OF_CHECK,
  OF_HOST,
  OF_LISTENER,
  OF_MANAGER,
  OF_ROUTE,
  OF_ROUTES,
  UPGRADE,
} from './known-settings.ts';
import { isRecord } from '../../model/read-schema.ts';

type Json = Readonly<Record<string, unknown>>;

const [ORIGINAL_DST = ''] = LISTENER_FILTERS;
const NOT_HTTP =
  'it may carry connections without requests: name its protocol in the Service, such as "appProtocol: http"';

/** A way from a listener to the application. */
interface Way {
  readonly port: number;
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
  const reader = new ProxyReader(clusters);
  const now = reader.read(listenersOf(dump, ['active_state']));
  // What is about to be in force counts already: no counter of the proxy tells when it is.
  const soon = reader.read(listenersOf(dump, ['warming_state', 'active_state']));
  const open = new Map([...now.open, ...soon.open].map((each) => [each.port, each]));
  return {
    ports: now.ports.filter((port) => soon.ports.includes(port)),
    open: [...open.values()],
    families: now.families.filter((family) => soon.families.includes(family)),
    proxy,
    problems: [...new Set([...now.problems, ...soon.problems])],
  };
}

class ProxyReader {
  readonly #clusters: ReadonlyMap<unknown, Json>;
  readonly #clusterFault: string | undefined;

  constructor(clusters: unknown) {
    const all = configsOf(clusters).map((config) => objectIn(config, 'cluster'));
    this.#clusters = new Map(all.map((cluster) => [cluster['name'], cluster]));
    this.#clusterFault = checkClusterFault(all);
  }

  read(all: readonly Json[]): Omit<GuardProof, 'proxy'> {
    const listeners = reachedOf(all);
    const problems = [
      this.#clusterFault,
      listeners.length === 0 ? 'the proxy has no listener for what the pod receives' : undefined,
      ...listeners.map((listener) => this.#listenerFault(listener)),
    ].filter((problem) => problem !== undefined);
    if (problems.length > 0) return { ports: [], open: [], families: [], problems };
    const ports: number[] = [];
    const open: { port: number; why: string }[] = [];
    const ways = listeners.flatMap((listener) => this.#waysThrough(listener));
    for (const [port, list] of Map.groupBy(ways, (way) => way.port)) {
      const why = list.find(({ fault }) => fault !== undefined)?.fault;
      if (why === undefined) ports.push(port);
      else open.push({ port, why });
    }
    return { ports, open, families: familiesOf(listeners), problems: [] };
  }

  /** Returns why no port of the listener counts. What no chain matches goes by the chain of last resort, whatever its port. */
  #listenerFault(listener: Json): string | undefined {
    const odd = oddSetting(listener, OF_LISTENER);
    if (odd !== undefined) return `a listener of the proxy has setting "${odd}", which may lead around the check`;
    const filter = listIn(listener, 'listener_filters').find(
      (each) => !LISTENER_FILTERS.some((type) => isOfType(each, type)),
    );
    if (filter !== undefined) return `listener filter "${shortName(filter)}" of the proxy may change who the client is`;
    const chain = listener['default_filter_chain'];
    const fault = isRecord(chain) ? this.#chainFault(chain) : undefined;
    return fault === undefined ? undefined : `what no chain of the proxy matches: ${fault}`;
  }

  /** A chain without a port is the way for ports that have none of their own, and those never count. */
  #waysThrough(listener: Json): readonly Way[] {
    const own = isRedirected(listener) ? undefined : socketOf(objectIn(listener, 'address'))['port_value'];
    return listIn(listener, 'filter_chains').flatMap((chain) => {
      const port = objectIn(chain, 'filter_chain_match')['destination_port'] ?? own;
      return typeof port === 'number' ? [{ port, fault: this.#chainFault(chain) }] : [];
    });
  }

  /** Returns why what enters the chain may reach the application unasked. A check of connections comes after what a server says first. */
  #chainFault(chain: Json): string | undefined {
    const last = listIn(chain, 'filters').at(-1);
    if (last === undefined) return 'a chain has no filters';
    if (isOfType(last, 'HttpConnectionManager')) return this.#requestsFault(configOf(last));
    return isOfType(last, 'TcpProxy') ? NOT_HTTP : `a chain ends in filter "${shortName(last)}", which is not known`;
  }

  #requestsFault(manager: Json): string | undefined {
    const routes = manager['route_config'];
    if (!isRecord(routes)) return 'routes come from elsewhere, and may leave out the check';
    const odd = oddSetting(manager, OF_MANAGER);
    if (odd !== undefined) return `requests are handled with "${odd}", which may lead around the check`;
    const upgrades = listIn(manager, 'upgrade_configs');
    const ofUpgrades = upgrades.map((upgrade) => listIn(upgrade, 'filters')).filter(({ length }) => length > 0);
    const lists = [listIn(manager, 'http_filters'), ...ofUpgrades];
    const names = lists.flatMap((filters) => filters.filter(isCheck).map(({ name }) => String(name)));
    return (
      firstOf(lists, filtersFault) ??
      firstOf(upgrades, upgradeFault) ??
      routesFault(routes, names) ??
      firstOf(clustersOf(routes), (name) => this.#behindFault(name))
    );
  }

  /** Filters of a cluster come after the check. */
  #behindFault(name: unknown): string | undefined {
    const shown = String(name);
    const cluster = this.#clusters.get(name);
    if (cluster === undefined) return `the proxy does not show its cluster "${shown}"`;
    const filters = [...valuesOf(cluster, 'http_filters')].flat();
    const isFiltered = filters.some((each) => !isRecord(each) || !isOfType(each, 'upstream_codec.v3.UpstreamCodec'));
    const own = listIn(cluster, 'filters').filter((each) => !isOfType(each, 'MetadataExchange'));
    return isFiltered || own.length > 0 ? `cluster "${shown}" has filters behind the check` : undefined;
  }
}

/** Returns why checks do not reach this program; undefined when they do. */
function checkClusterFault(clusters: readonly Json[]): string | undefined {
  const found = clusters.filter((cluster) => cluster['name'] === CHECK_CLUSTER);
  if (found.length !== 1) return `the proxy has no cluster ${CHECK_CLUSTER}`;
  const endpoints = listIn(objectIn(found[0] ?? {}, 'load_assignment'), 'endpoints').flatMap((each) =>
    listIn(each, 'lb_endpoints'),
  );
  const pipes = endpoints.map((each) => objectIn(objectIn(objectIn(each, 'endpoint'), 'address'), 'pipe')['path']);
  const isOwn = pipes.length === 1 && pipes[0] === CHECK_PIPE;
  return isOwn ? undefined : `the cluster ${CHECK_CLUSTER} of the proxy leads elsewhere than ${CHECK_PIPE}`;
}

/** Returns each listener in the first of these states that it has. */
function listenersOf(dump: unknown, states: readonly string[]): readonly Json[] {
  return configsOf(dump)
    .map((config) => objectIn(objectIn(config, states.find((state) => Object.hasOwn(config, state)) ?? ''), 'listener'))
    .filter((listener) => listener['name'] !== undefined && listener['traffic_direction'] !== 'OUTBOUND');
}

/** Where connections are redirected to the proxy, no client reaches its other listeners, whatever address they name. */
function reachedOf(listeners: readonly Json[]): readonly Json[] {
  const bound = listeners.filter((listener) => {
    const { protocol, address } = socketOf(objectIn(listener, 'address'));
    const isLocal = typeof address === 'string' && (address.startsWith('127.') || address === '::1');
    return protocol !== 'UDP' && !isLocal && listener['bind_to_port'] !== false;
  });
  const redirected = bound.filter(isRedirected);
  return redirected.length > 0 ? redirected : bound;
}

function isRedirected(listener: Json): boolean {
  return listIn(listener, 'listener_filters').some((filter) => isOfType(filter, ORIGINAL_DST));
}

/** Families in which the proxy can be reached: a connection of another one does not come by it. */
function familiesOf(listeners: readonly Json[]): readonly Family[] {
  const sockets = listeners.flatMap((listener) =>
    [listener, ...listIn(listener, 'additional_addresses')].map((each) => socketOf(objectIn(each, 'address'))),
  );
  const families = sockets.flatMap(({ address, ipv4_compat: isBoth }): Family[] => {
    const family = typeof address === 'string' ? tryParseAddress(address)?.family : undefined;
    return family === 6 && isBoth === true ? [4, 6] : family === undefined ? [] : [family];
  });
  return [...new Set(families)].toSorted((a, b) => a - b);
}

function socketOf(address: Json): Json {
  return objectIn(address, 'socket_address');
}

/** `checks` are the names by which routes can change the settings of a check. */
function routesFault(routes: Json, checks: readonly string[]): string | undefined {
  const disabling = [...valuesOf(routes, 'typed_per_filter_config')].find(
    (each) => isRecord(each) && checks.some((name) => Object.hasOwn(each, name)),
  );
  if (disabling !== undefined) return 'a route has settings of its own for the check';
  const hosts = listIn(routes, 'virtual_hosts');
  const all = hosts.flatMap((host) => listIn(host, 'routes'));
  const actions = all.map((route) => objectIn(route, 'route'));
  const odd =
    oddSetting(routes, OF_ROUTES) ??
    firstOf(hosts, (host) => oddSetting(host, OF_HOST)) ??
    firstOf(all, (route) => oddSetting(route, OF_ROUTE)) ??
    firstOf(actions, (action) => oddSetting(action, OF_ACTION));
  if (odd !== undefined) return `a route has setting "${odd}", which may lead around the check`;
  return firstOf(
    actions.flatMap((action) => listIn(action, 'upgrade_configs')),
    upgradeFault,
  );
}

function clustersOf(routes: Json): readonly unknown[] {
  const weighted = [...valuesOf(routes, 'weighted_clusters')].flatMap((each) =>
    isRecord(each) ? listIn(each, 'clusters').map(({ name }) => name) : [],
  );
  return [...valuesOf(routes, 'cluster'), ...weighted];
}

function upgradeFault(upgrade: Json): string | undefined {
  const { upgrade_type: type } = upgrade;
  if (type !== UPGRADE) return `connections become "${String(type)}", which carries what is not asked about`;
  return Object.hasOwn(upgrade, 'connect_config') ? 'requests become connections (connect_config)' : undefined;
}

/** The check is the last before the router: what comes after it may change the request. */
function filtersFault(filters: readonly Json[]): string | undefined {
  const router = filters.at(-1);
  if (router === undefined || !isOfType(router, 'router.v3.Router')) return 'requests do not end at a router';
  if (listIn(configOf(router), 'upstream_http_filters').length > 0) return 'the router has filters behind the check';
  const cache = filters.find((filter) => /[./]cache[._]/.test(typeOf(filter)));
  if (cache !== undefined) return `filter "${shortName(cache)}" answers before the check`;
  const before = filters.at(-2);
  const checks = filters.filter(isCheck);
  if (checks.length === 0) return 'requests are not checked by netplug';
  const fault = firstOf(checks, checkFault);
  if (fault !== undefined) return fault;
  if (before === undefined || !isCheck(before))
    return `filter "${before === undefined ? '' : shortName(before)}" is between the check and the router`;
  return undefined;
}

/** Checks of others ask others. */
function isCheck(filter: Json): boolean {
  const { cluster_name: cluster } = objectIn(objectIn(configOf(filter), 'grpc_service'), 'envoy_grpc');
  return isOfType(filter, 'http.ext_authz.v3.ExtAuthz') && cluster === CHECK_CLUSTER;
}

function checkFault(filter: Json): string | undefined {
  if (filter['disabled'] === true) return 'the check is disabled';
  const config = configOf(filter);
  if (config['failure_mode_allow'] === true) return 'the check lets pass what it cannot ask about (failure_mode_allow)';
  const odd = oddSetting(config, OF_CHECK);
  return odd === undefined ? undefined : `the check has setting "${odd}", and may not ask about everything`;
}

function oddSetting(object: Json, known: readonly string[]): string | undefined {
  return Object.keys(object).find((key) => !known.includes(key));
}

function firstOf<T>(list: readonly T[], faultOf: (each: T) => string | undefined): string | undefined {
  for (const each of list) {
    const fault = faultOf(each);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function configsOf(dump: unknown): readonly Json[] {
  return isRecord(dump) ? listIn(dump, 'configs') : [];
}

function configOf(filter: Json): Json {
  return objectIn(filter, 'typed_config');
}

/** Types are what the proxy goes by. */
function typeOf(filter: Json): string {
  return String(configOf(filter)['@type']);
}

function isOfType(filter: Json, type: string): boolean {
  const name = typeOf(filter);
  return name.endsWith(`.${type}`) || name.endsWith(`/${type}`);
}

/** Names are chosen by who wrote the configuration: they are only shown. */
function shortName(filter: Json): string {
  return typeof filter['name'] === 'string' ? filter['name'].replace(/^envoy\.filters\.[a-z]+\./, '') : '';
}

/** Yields what stands under the key, at any depth. */
function* valuesOf(value: unknown, key: string): Generator {
  if (Array.isArray(value)) for (const each of value) yield* valuesOf(each, key);
  if (!isRecord(value)) return;
  for (const [name, inner] of Object.entries(value)) {
    if (name === key) yield inner;
    yield* valuesOf(inner, key);
  }
}

function objectIn(parent: Json, key: string): Json {
  const value = ownValue(parent, key);
  return isRecord(value) ? value : {};
}

function listIn(parent: Json, key: string): readonly Json[] {
  const value = ownValue(parent, key);
  // What is no object is a filter, or a listener, of which nothing is known.
  return Array.isArray(value) ? value.map((each) => (isRecord(each) ? each : {})) : [];
}
