import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { readProof } from './proxy-proof.ts';

// As a real Envoy 1.40 under a real istiod answered: test/golden/envoy-1.40.
const DUMPS = new URL('../../../test/golden/envoy-1.40/', import.meta.url);
const CLUSTERS = {
  configs: [
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

const proofOf = (dump: unknown, clusters: unknown = CLUSTERS) => readProof(dump, { clusters, proxy: '1.40.0' });

const CONNECTIONS =
  'it may carry connections without requests: name its protocol in the Service, such as "appProtocol: http"';

describe('the proof of a recorded proxy', () => {
  it.each([
    ['permissive', [8080], [15_006, 9000, 9100]],
    ['strict', [8080], [15_006, 9000, 9100]],
    ['portlevel', [8080], [15_006, 7777, 9000, 9100]],
    ['sidecar-all', [8080], [15_006, 9500]],
    ['custom', [8080], [15_006, 9000, 9100]],
    ['unres', [8080], [15_006, 9000, 9100]],
  ])('"%s" covers the ports of HTTP %j, and none that may carry something else', (name, ports, others) => {
    const open = others.map((port) => ({ port, why: CONNECTIONS }));
    expect(proofOf(dumpOf(name))).toEqual({ ports, open, proxy: '1.40.0', problems: [] });
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
function changed(change: (parts: { listener: Recorded; manager: Recorded; check: Recorded }) => void): unknown {
  const dump = dumpOf('permissive');
  const { listener } = dump.configs[0].active_state;
  const chain = listener.filter_chains.find((each: Recorded) => each.filter_chain_match?.destination_port === 8080);
  const manager = chain.filters[0].typed_config;
  const check = manager.http_filters.find((each: Recorded) => each.name === 'netplug');
  change({ listener, manager, check });
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
      'have a way without the check for what no chain matches',
      ({ listener }) => (listener.default_filter_chain = { filters: [{ typed_config: { '@type': 'x/y.TcpProxy' } }] }),
    ],
  ])('when listeners %s', (_, change) => {
    expect(proofOf(changed(change)).ports).toEqual([]);
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
