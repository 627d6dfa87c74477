import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { readProof } from './proxy-proof.ts';

// As a real Envoy 1.40 under a real istiod answered: test/golden/envoy-1.40.
const DUMPS = new URL('../../../test/golden/envoy-1.40/', import.meta.url);
const APPLICATION = [
  'InboundPassthroughCluster',
  'inbound|8080||',
  'inbound|9000||',
  'inbound|9100||',
  'inbound|9500||',
];
const CLUSTERS = {
  configs: [
    ...APPLICATION.map((name) => ({ cluster: { name } })),
    {
      cluster: {
        name: 'netplug-check',
        load_assignment: {
          endpoints: [{ lb_endpoints: [{ endpoint: { address: { pipe: { path: '@netplug-check' } } } }] }],
        },
      },
    },
  ],
};

// oxlint-disable-next-line typescript/no-explicit-any -- a recorded answer of another program, changed by tests only
type Recorded = any;

function dumpOf(name: string): Recorded {
  return JSON.parse(gunzipSync(readFileSync(new URL(`dump-${name}.json.gz`, DUMPS))).toString());
}

const CACHE = {
  name: 'x',
  typed_config: { '@type': 'type.googleapis.com/envoy.extensions.filters.http.cache.v3.CacheConfig' },
};

const proofOf = (dump: unknown, clusters: unknown = CLUSTERS) => readProof(dump, { clusters, proxy: '1.40.0' });

const CONNECTIONS =
  'it may carry connections without requests: name its protocol in the Service, such as "appProtocol: http"';

describe('the proof of a recorded proxy', () => {
  it.each([
    ['permissive', [8080], [15_006, 9000, 9100]],
    ['strict', [8080], [15_006, 9000, 9100]],
    ['portlevel', [8080], [15_006, 7777, 9000, 9100]],
    // No client reaches its listener of port 9500: what comes in is redirected to another one.
    ['sidecar-all', [8080], [15_006]],
    ['custom', [8080], [15_006, 9000, 9100]],
    ['unres', [8080], [15_006, 9000, 9100]],
  ])('"%s" covers the ports of HTTP %j, and none that may carry something else', (name, ports, others) => {
    const open = others.map((port) => ({ port, why: CONNECTIONS }));
    expect(proofOf(dumpOf(name))).toEqual({ ports, open, families: [4], proxy: '1.40.0', problems: [] });
  });

  it('covers no port where a filter sits between the check and the router', () => {
    const { ports, open } = proofOf(dumpOf('lua'));
    expect(ports).toEqual([]);
    expect(open).toContainEqual({ port: 8080, why: 'filter "mylua" is between the check and the router' });
  });

  it('covers nothing where nothing that the pod receives is redirected', () => {
    const { ports, problems } = proofOf(dumpOf('none'));
    expect([ports, problems]).toEqual([[], ['the proxy has no listener for what the pod receives']]);
  });
});

/** Changes the chain of requests to port 8080. */
function changed(
  change: (parts: {
    config: Recorded;
    listener: Recorded;
    manager: Recorded;
    check: Recorded;
    route: Recorded;
  }) => void,
): unknown {
  const dump = dumpOf('permissive');
  const [config] = dump.configs;
  const { listener } = config.active_state;
  const chain = listener.filter_chains.find((each: Recorded) => each.filter_chain_match?.destination_port === 8080);
  const manager = chain.filters[0].typed_config;
  const check = manager.http_filters.find((each: Recorded) => each.name === 'netplug');
  const route = manager.route_config.virtual_hosts[0].routes[0];
  change({ config, listener, manager, check, route });
  return dump;
}

describe('a port is not covered', () => {
  it.each<[string, Parameters<typeof changed>[0], number]>([
    ['lets pass what it cannot ask about', ({ check }) => (check.typed_config.failure_mode_allow = true), 8080],
    ['is disabled', ({ check }) => (check.disabled = true), 8080],
    ['asks about a share of requests', ({ check }) => (check.typed_config.filter_enabled = {}), 8080],
    ['asks when metadata say so', ({ check }) => (check.typed_config.filter_enabled_metadata = {}), 8080],
    ['has a setting of a later release', ({ check }) => (check.typed_config.skip_some = true), 8080],
    ['asks another cluster', ({ check }) => (check.typed_config.grpc_service.envoy_grpc.cluster_name = 'x'), 8080],
    ['is another filter of that name', ({ check }) => (check.typed_config['@type'] = 'x/y.Lua'), 8080],
    ['comes from elsewhere', ({ check }) => delete check.typed_config, 8080],
    [
      'is gone',
      ({ manager }) => (manager.http_filters = manager.http_filters.filter(({ name }: Recorded) => name !== 'netplug')),
      8080,
    ],
    ['is not followed by a router', ({ manager }) => manager.http_filters.pop(), 8080],
    [
      'is left out of a route',
      ({ manager }) =>
        (manager.route_config.virtual_hosts[0].routes[0].typed_per_filter_config = { netplug: { disabled: true } }),
      8080,
    ],
    [
      'is left out of a weighted cluster',
      ({ manager }) =>
        (manager.route_config.virtual_hosts[0].routes[0].route.weighted_clusters = {
          clusters: [{ typed_per_filter_config: { netplug: {} } }],
        }),
      8080,
    ],
    [
      'is left out of a host',
      ({ manager }) => (manager.route_config.virtual_hosts[0].typed_per_filter_config = { netplug: {} }),
      8080,
    ],
    [
      'sees another path than the application',
      ({ manager }) => (manager.route_config.virtual_hosts[0].routes[0].route.prefix_rewrite = '/admin'),
      8080,
    ],
    [
      'has routes that are not shown',
      ({ manager }) => {
        delete manager.route_config;
        manager.rds = {};
      },
      8080,
    ],
    [
      'is missing in an upgrade',
      ({ manager }) =>
        (manager.upgrade_configs = [{ upgrade_type: 'websocket', filters: [manager.http_filters.at(-1)] }]),
      8080,
    ],
    [
      'comes before filters of the router',
      ({ manager }) => (manager.http_filters.at(-1).typed_config.upstream_http_filters = [{ name: 'lua' }]),
      8080,
    ],
    [
      'is left out in a route, of an upgrade',
      ({ manager, check, route }) => {
        const other = { ...check, name: 'other' };
        manager.upgrade_configs = [{ upgrade_type: 'websocket', filters: [other, manager.http_filters.at(-1)] }];
        route.typed_per_filter_config = { other: { disabled: true } };
      },
      8080,
    ],
    ['sees no bytes after an upgrade', ({ manager }) => (manager.upgrade_configs = [{ upgrade_type: 'spdy' }]), 8080],
    ['sees a tunnel', ({ route }) => (route.route.upgrade_configs = [{ upgrade_type: 'CONNECT' }]), 8080],
    [
      'sees a request that becomes a tunnel',
      ({ route }) =>
        (route.route.upgrade_configs = [{ upgrade_type: 'websocket', connect_config: { allow_post: true } }]),
      8080,
    ],
    ['is before a choice by the client', ({ route }) => (route.route = { cluster_header: 'x-to' }), 8080],
    ['is before a cluster that is not shown', ({ route }) => (route.route.cluster = 'hidden'), 8080],
    ['comes after a cache', ({ manager }) => manager.http_filters.unshift(CACHE), 8080],
    ['sees another form of the path', ({ manager }) => (manager.path_normalization_options = {}), 8080],
    [
      'has routes that are chosen otherwise',
      ({ manager }) => (manager.route_config.virtual_hosts[0].matcher = {}),
      8080,
    ],
  ])('whose check %s', (_, change, port) => {
    const { ports, open } = proofOf(changed(change));
    expect([ports.includes(port), open.some((each) => each.port === port)]).toEqual([false, true]);
  });

  it.each<[string, Parameters<typeof changed>[0]]>([
    [
      'take the word of clients for their address',
      ({ listener }) => listener.listener_filters.push({ name: 'envoy.filters.listener.proxy_protocol' }),
    ],
    [
      'change clients under a name that is known',
      ({ listener }) =>
        (listener.listener_filters[1].typed_config = {
          '@type': 'type.googleapis.com/envoy.x.proxy_protocol.v3.ProxyProtocol',
        }),
    ],
    ['choose chains by something else', ({ listener }) => (listener.filter_chain_matcher = {})],
    ['have chains that are not shown', ({ listener }) => (listener.fcds_config = {})],
    ['hand connections over', ({ listener }) => (listener.use_original_dst = true)],
    [
      'are about to ask no more',
      ({ config }) => {
        const soon = structuredClone(config.active_state);
        soon.listener.filter_chains.at(-1).filters[0].typed_config.http_filters?.splice(0, 1);
        for (const chain of soon.listener.filter_chains) chain.filters[0].typed_config.http_filters = [];
        config.warming_state = soon;
      },
    ],
    ['are bound for datagrams', ({ listener }) => (listener.address.socket_address.protocol = 'UDP')],
    ['are bound to no port', ({ listener }) => (listener.bind_to_port = false)],
    [
      'have a way without the check for what no chain matches',
      ({ listener }) => (listener.default_filter_chain = { filters: [{ typed_config: { '@type': 'x/y.TcpProxy' } }] }),
    ],
  ])('when listeners %s', (_, change) => {
    expect(proofOf(changed(change)).ports).toEqual([]);
  });

  it.each([
    [
      'filters of requests',
      { name: 'inbound|8080||', x: { http_filters: [{ typed_config: { '@type': 'x/y.Lua' } }] } },
    ],
    ['filters of bytes', { name: 'inbound|8080||', filters: [{ typed_config: { '@type': 'x/y.Wasm' } }] }],
  ])('when the cluster behind it has %s', (_, cluster) => {
    expect(proofOf(dumpOf('permissive')).ports).toEqual([8080]);
    expect(proofOf(dumpOf('permissive'), { configs: [...CLUSTERS.configs, { cluster }] }).ports).toEqual([]);
  });

  it.each([
    ['0.0.0.0', undefined, [4]],
    ['::', undefined, [6]],
    ['::', true, [4, 6]],
  ])('of another family than a proxy at %s receives', (address, isBoth, families) => {
    const dump = changed(({ listener }) => (listener.address.socket_address = { address, ipv4_compat: isBoth }));
    expect(proofOf(dump).families).toEqual(families);
  });

  it.each([
    ['is missing', { configs: [] }],
    ['leads elsewhere', JSON.parse(JSON.stringify(CLUSTERS).replace('@netplug-check', '@other'))],
    ['cannot be read', 'garbage'],
  ])('when the cluster of the check %s', (_, clusters) => {
    const { ports, problems } = proofOf(dumpOf('permissive'), clusters);
    expect([ports, problems.length]).toEqual([[], 1]);
  });

  it.each([undefined, null, 'text', [], {}, { configs: [null, 1, {}] }])('when the answer is %j', (dump) => {
    expect(proofOf(dump)).toMatchObject({ ports: [] });
  });
});
