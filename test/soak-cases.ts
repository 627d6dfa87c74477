// What `make soak` runs beside `make test`, in cases of at most ten minutes on two cores, so that a share of them fits into
// every run of CI.
import type { KubernetesRelease } from './support/components.ts';
import { NOT_EVERYDAY, OLDEST_ETCD, TWO_MODES } from './runs.ts';

/** Some tests, run by one call of vitest in the extent `soak`. */
export interface SoakCase {
  readonly name: string;
  /** Arguments of vitest. */
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** What is built first: arguments of scripts/build-components.ts. */
  readonly components?: readonly string[];
  /** An older release of Kubernetes that is built first. */
  readonly kubernetes?: KubernetesRelease;
  /** Targets of make that it needs. */
  readonly targets?: readonly string[];
  /** Expected time on two cores; what a run took replaces it. */
  readonly minutes: number;
  /** Minutes of these in which an outage lasts: no cut makes them fewer. */
  readonly waits?: number;
}

const OLDEST_KUBERNETES = '1.34';
const SOAK = ['soak'];
const e2e = (...files: readonly string[]): readonly string[] => ['--project=e2e', ...files.map(pathOf)];
const agent = (...files: readonly string[]): readonly string[] => ['--project=e2e-agent', ...files.map(pathOf)];
const clusters = (...files: readonly string[]): readonly string[] => [
  '--project=e2e-agent-clusters',
  ...files.map(pathOf),
];
const titled = (title: string): readonly string[] => ['--testNamePattern', title];

/** Files with tests for each datastore. */
const IN_ETCD = [
  'controllers-addresses',
  'controllers-facts',
  'controllers-failover',
  'controllers-moves',
  'controllers-nodes',
  'controllers-rights',
  'ctl-host-endpoints',
  'ctl-ipam',
  'ctl-policy',
  'ctl-resources',
  'ctl-why',
];

/** The modes that `make test` leaves out. */
const otherModes = Object.entries(TWO_MODES)
  .filter(([name, mode]) => mode !== 'both' && !(`e2e/${name}` in NOT_EVERYDAY))
  .map(([name, mode]): SoakCase => {
    const other = mode === 'agent' ? e2e(name) : agent(name);
    return { name: `${name}, ${mode === 'agent' ? 'standalone' : 'with agents'}`, args: other, minutes: 2 };
  });

export const SOAK_CASES: readonly SoakCase[] = [
  ...otherModes,
  ...OLDEST_ETCD.slice(1).map((name): SoakCase => {
    const args = ['--project=contract-oldest-etcd', `test/contract/${name.replace('*', '')}`];
    return { name: `oldest etcd, ${name}`, args, minutes: 3 };
  }),
  ...['ipam', 'resident'].map((name): SoakCase => {
    const args = ['--project=sim', `test/sim/${name}.test.ts`];
    return { name: `long simulation, ${name}`, args, minutes: 9 };
  }),
  { name: 'fuzz for a minute each', args: ['--project=fuzz'], minutes: 5 },
  ...['cluster', 'cluster-datastores-kv', 'cluster-datastores-orch', 'orch-pods'].flatMap((name): SoakCase[] => [
    { name: `${name}, standalone`, args: e2e(name), minutes: 6 },
    { name: `${name}, with agents`, args: agent(name), minutes: 6 },
    onOldestKubernetes({ name, args: agent(name), minutes: 6 }),
  ]),
  { name: 'containerd, standalone', args: e2e('containerd'), minutes: 3 },
  { name: 'containerd, with agents', args: agent('containerd'), minutes: 3 },
  { name: 'etcd-upgrade, standalone', args: e2e('etcd-upgrade'), minutes: 2 },
  { name: 'etcd-upgrade, with agents', args: agent('etcd-upgrade'), minutes: 2 },
  { name: 'tool and controllers on etcd', args: [...e2e(...IN_ETCD), ...titled('on kv')], minutes: 8 },
  { name: 'network process without memory', args: e2e('network-process'), minutes: 2 },
  {
    name: 'failures between nodes',
    args: ['--project=e2e-between-nodes', pathOf('between-nodes-failures')],
    minutes: 4,
  },
  {
    name: 'a BIRD of the host',
    args: ['--project=e2e-between-nodes', pathOf('between-nodes-external-bird')],
    minutes: 2,
  },
  {
    name: 'what lends API servers',
    args: ['--project=contract', 'test/contract/api-server-lender.test.ts'],
    minutes: 1,
  },
  { name: 'cluster-networking, each datastore', args: clusters('cluster-networking'), minutes: 6 },
  { name: 'cluster-features', args: clusters('cluster-features'), minutes: 8 },
  onOldestKubernetes({ name: 'cluster-features', args: clusters('cluster-features'), minutes: 8 }),
  onOldestKubernetes({ name: 'cluster-networking', args: clusters('cluster-networking'), minutes: 8 }),
  // Without a server of the fan-out.
  { name: 'nodes with IPv6 alone', args: clusters('cluster-ipv6'), minutes: 14, waits: 10 },
  { name: 'playground', args: clusters('playground'), minutes: 9 },
  onOldestKubernetes({ name: 'playground', args: clusters('playground'), minutes: 9 }),
  ...Object.entries({ tunnels: 6, direct: 2, etcd: 2 }).flatMap(([name, parts]) =>
    inParts(parts, {
      name: `tests of Kubernetes, nodes joined by ${name}`,
      args: [...clusters('sig-network'), ...titled(`joined by ${name} `)],
      components: SOAK,
      minutes: 10,
    }),
  ),
  ...inParts(6, { name: 'cyclonus', args: clusters('cyclonus'), components: SOAK, minutes: 10 }),
  { name: 'storm of policies', args: agent('agent-policy-storm'), minutes: 9 },
  {
    name: 'requests while parts fail',
    args: agent('agent-sidecar-load'),
    components: ['test', 'authz-client'],
    minutes: 3,
  },
  { name: 'service mesh', args: clusters('mesh'), components: ['test', 'mesh'], minutes: 9 },
  { name: 'storm of pods, controllers killed', args: e2e('controllers-storm'), minutes: 9 },
  { name: 'bad day on etcd', args: e2e('soak'), minutes: 10 },
  { name: 'bad day on the API', args: e2e('soak-orch'), minutes: 10 },
  { name: 'upgrades by every manifest and helm', args: e2e('upgrade'), components: SOAK, minutes: 10 },
  { name: 'upgrades in trouble', args: e2e('upgrade-trouble'), components: SOAK, minutes: 10 },
  { name: 'upgrade of a fleet', args: e2e('upgrade-fleet'), minutes: 8 },
  { name: 'upgrade with the fan-out', args: e2e('upgrade-typha'), minutes: 2 },
  { name: 'fan-out across releases', args: e2e('typha-releases'), minutes: 4 },
  { name: 'hazards of an upgrade', args: e2e('upgrade-hazards'), minutes: 6 },
  { name: 'identity of clusters', args: e2e('upgrade-identity'), minutes: 2 },
  { name: 'Debian package', args: e2e('deb-package'), minutes: 3 },
  { name: 'shells and terminals', args: e2e('ctl-shells'), minutes: 3 },
  { name: 'failover of controllers', args: e2e('controllers-failover'), minutes: 2 },
  { name: 'plans that are killed', args: e2e('plans-killed'), minutes: 2 },
  { name: 'purge of a node', args: e2e('uninstall-purge'), minutes: 3 },
  { name: 'an older release beside this one', args: e2e('upgrade-releases'), minutes: 9 },
  {
    name: 'charts with helm 3 and 4',
    args: ['--project=contract', 'test/contract/install-cluster.test.ts'],
    components: SOAK,
    minutes: 8,
  },
  ...inParts(7, { name: 'installation', args: clusters('install-cluster'), components: SOAK, minutes: 5 }),
  onOldestKubernetes({
    name: 'installation by operator',
    args: [...clusters('install-cluster'), ...titled('method operator')],
    minutes: 5,
  }),
  { name: 'installation on unfit nodes', args: clusters('install-hazards'), minutes: 9 },
  { name: 'another image of agents', args: clusters('image-roll'), minutes: 10 },
  ...inParts(8, { name: 'upgrade of a cluster', args: clusters('upgrade-cluster'), components: SOAK, minutes: 10 }),
  { name: 'upgrade of a cluster with hazards', args: clusters('upgrade-cluster-hazards'), minutes: 10 },
  ...inParts(2, {
    name: 'Kubernetes upgraded beneath netplug',
    args: clusters('kubernetes-upgrade'),
    kubernetes: OLDEST_KUBERNETES,
    minutes: 10,
  }),
  { name: 'images', args: e2e('images'), components: ['test', 'images'], targets: ['images'], minutes: 4 },
  { name: 'images, built twice', args: e2e('images-reproducible'), components: ['test', 'images'], minutes: 5 },
  {
    name: 'images, signed',
    args: e2e('images-signed'),
    components: ['test', 'images'],
    targets: ['images'],
    minutes: 9,
  },
];

/** Cases that were seen to pass since they were cut. Only these are in the share of the soak that CI runs. */
export const HAVE_PASSED: ReadonlySet<string> = new Set([
  'a BIRD of the host',
  'Debian package',
  'cluster-networking, each datastore',
  'containerd, standalone',
  'containerd, with agents',
  'failover of controllers',
  'fan-out across releases',
  'identity of clusters',
  'installation on unfit nodes',
  'network process without memory',
  'plans that are killed',
  'purge of a node',
  'shells and terminals',
  'tool and controllers on etcd',
  'upgrade with the fan-out',
  'what lends API servers',
]);

function pathOf(name: string): string {
  return `test/e2e/${name}.test.ts`;
}

/** Cuts a case whose tests take their share with `partOf`. */
function inParts(parts: number, whole: SoakCase): readonly SoakCase[] {
  return Array.from({ length: parts }, (_, index): SoakCase => {
    const part = `${String(index + 1)}/${String(parts)}`;
    return { ...whole, name: `${whole.name}, part ${part}`, env: { ...whole.env, NETPLUG_PART: part } };
  });
}

/** The same on the oldest release of Kubernetes that netplug supports. */
function onOldestKubernetes(whole: SoakCase): SoakCase {
  const kubernetes = OLDEST_KUBERNETES;
  const env = { ...whole.env, KUBERNETES: kubernetes };
  return { ...whole, name: `${whole.name}, Kubernetes ${kubernetes}`, env, kubernetes };
}
