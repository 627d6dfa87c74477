// What runs where. NETPLUG_TESTS chooses the extent of a run: `everyday`, the default, is what `make test` proves for every
// change; `soak` is everything, in full size, and is run in cases (soak-cases.ts). vitest.config.ts makes its projects of
// these tables, and tests take their sizes from them.

import type { Mode } from './support/agent.ts';

/** How much a run proves. */
export type Extent = 'everyday' | 'soak';

/** The extent of this run. */
export const EXTENT: Extent = extentOf(process.env['NETPLUG_TESTS']);

/** Returns the value that belongs to the extent of this run. */
export function inExtent<T>(choice: Readonly<Record<Extent, T>>): T {
  return choice[EXTENT];
}

/** Returns the extent that NETPLUG_TESTS names. Throws for a name that does not exist. */
export function extentOf(name = 'everyday'): Extent {
  if (name === 'everyday' || name === 'soak') return name;
  throw new Error(`NETPLUG_TESTS is "${name}"; allowed are everyday and soak`);
}

/** Files and single tests that `make test` leaves to the soak, with the reason. Tests are named by `runsHere`. */
export const NOT_EVERYDAY = {
  'contract/api-server-lender': 'tests what lends API servers to tests; every file that borrows one depends on it',
  'contract/install-cluster: rarer ways':
    'half a minute each; the methods, --spec, repetition and removal stay, and unit tests decide plans and refusals',
  'e2e/agent-policy-storm': 'the same on one node with a few pods is agent-policy-flows; policy-random compares rules',
  'e2e/agent-sidecar-load': 'two minutes of load; agent-sidecar has each failure with single requests',
  'e2e/between-nodes-external-bird':
    'a BIRD of the host; between-nodes-connectivity has the same sessions with our own',
  'e2e/controllers-rights: on kv': 'the roles differ by the datastore alone, whose rights unit tests list; orch stays',
  'e2e/cluster':
    'five minutes of pods on two nodes; cluster-networking shows such pods with everything else around them',
  'e2e/cluster-datastores-kv': 'minutes of pods; containerd and cluster-networking show each part',
  'e2e/cluster-datastores-orch': 'minutes of pods; containerd and cluster-networking show each part',
  'e2e/cluster-networking: other datastores and pod CIDRs':
    'a cluster each; every test between nodes has its records in etcd, and unit tests decide the routes of pod CIDRs',
  'e2e/cluster-ipv6':
    'ten minutes on a cluster of its own; agent-typha shows an agent without servers, and one that listens on IPv6 alone',
  'e2e/cluster-features':
    'features of Kubernetes and containerd that change with their releases, not with this repository',
  'e2e/containerd':
    'sandboxes of containerd alone; cluster-networking has them with kubelets, cni every call that containerd makes',
  'e2e/controllers-storm': 'minutes of pods; controllers-failover kills leaders in the middle of their writes',
  'e2e/ctl-shells': 'minutes of shells and terminals; unit tests of completion and of the screen decide what they show',
  'e2e/cyclonus': 'an hour; netns/policy-conformance and policy-random compare rules with a second reading of policies',
  'e2e/deb-package': 'builds two packages and installs them in a Debian; install-executables shows the same files',
  'e2e/etcd-upgrade': 'changes with releases of etcd; the contract of the store runs on the oldest and on the newest',
  'e2e/image-roll': 'twenty minutes; agent-surge and takeover show each replacement of an agent',
  'e2e/images':
    'runs every program of the images, which change with their recipe; the clusters of `make test` pull and run them',
  'e2e/images-reproducible': 'builds every image twice; images reads what one build contains',
  'e2e/images-signed': 'emulates arm64 and signs images, which no other change touches',
  'e2e/install-hazards': 'a cluster for each hazard; install shows the same refusals on a node',
  'e2e/kubernetes-upgrade': 'two releases of Kubernetes and half an hour',
  'e2e/mesh': 'builds Istio, and starts a cluster; agent-sidecar has a real Envoy with the same filters',
  'e2e/orch-pods': 'minutes of pods; cluster-networking shows annotations and records of pods',
  'e2e/playground': 'the whole cluster of `make cluster`; its parts are install-cluster and cluster-networking',
  'e2e/sig-network': 'hours of tests of Kubernetes itself',
  'e2e/soak': 'minutes of random calls; many-at-once, takeover and test/sim look for the same leaks',
  'e2e/soak-orch': 'minutes of random calls; many-at-once, takeover and test/sim look for the same leaks',
  'e2e/typha-releases': 'builds an older commit first; a server that lacks topics is in the tests of the client',
  'e2e/upgrade-fleet': 'two minutes; unit tests of fleets decide the same waves, and plans-killed kills other plans',
  'e2e/upgrade-cluster': 'half an hour for each method; upgrade shows every method with simulated agents',
  'e2e/upgrade-cluster-hazards': 'twenty minutes; upgrade-hazards seeds each hazard on an API server',
  'e2e/upgrade-releases': 'builds an older commit first',
  'e2e/upgrade-typha':
    'a minute; tests of the plan decide the order, and install-cluster has the fan-out with its programs',
  'e2e/controllers-failover: leaders that are paused or cut off':
    'minutes; leaders are killed on both datastores, and contract/leader-* has the other faults of a lease',
  'e2e/plans-killed: an installation':
    'copies 300 MB for each moment; two other plans are killed at each of their records',
  'e2e/uninstall-purge: programs that do not answer': 'waits for each of them; killed ones are removed in `make test`',
  'e2e/upgrade: other methods': 'a minute or two each; the manifest goes through the same plan, apply and rollback',
  'e2e/upgrade-identity: two clusters behind one proxy': 'a minute; three other cases of mistaken clusters stay',
  'e2e/upgrade-trouble: other causes': 'minutes; an upgrade that is killed at each of its records stays',
  'e2e/between-nodes-failures: across subnets': 'VXLAN and BGP stay, of which that mode is made',
  'e2e/network-process: out of memory': 'twenty seconds of garbage; a killed process is served around in the same way',
} as const satisfies Readonly<Record<string, string>>;

/** A file, or tests of a file, that not every run has. */
export type Rare = keyof typeof NOT_EVERYDAY;

/** Reports whether tests that NOT_EVERYDAY names belong to this run. */
export function runsHere(_tests: Rare): boolean {
  return EXTENT === 'soak';
}

/**
 * Files of test/e2e whose titles hold in both modes, and the modes in which `make test` runs them; the soak runs both. Files
 * that are in no table start the agents that they want.
 */
export const TWO_MODES: Readonly<Record<string, 'both' | Mode>> = {
  'bad-input': 'agent',
  chain: 'standalone',
  cluster: 'both',
  'cluster-datastores-kv': 'both',
  'cluster-datastores-orch': 'both',
  cni: 'both',
  gc: 'both',
  containerd: 'both',
  'ctl-datastore': 'agent',
  'etcd-upgrade': 'both',
  'health-probe': 'agent',
  'host-local': 'standalone',
  install: 'agent',
  'ipam-under-ptp': 'standalone',
  'many-at-once': 'agent',
  netplugctl: 'standalone',
  'orch-pods': 'both',
  podman: 'standalone',
  'restored-etcd': 'agent',
};

/** Patterns of files of test/e2e whose nodes always have agents. */
export const WITH_AGENTS: readonly string[] = ['agent', 'agent-*'];

/** Patterns of files with whole clusters, whose agents provide the network. */
export const CLUSTERS: readonly string[] = [
  'cluster-features',
  'cluster-ipv6',
  'cluster-networking',
  'cyclonus',
  'image-roll',
  'install-cluster',
  'install-hazards',
  'kubernetes-upgrade',
  'mesh',
  'playground',
  'sig-network',
  'upgrade-cluster',
  'upgrade-cluster-hazards',
];

/** Files that take longest, in the order in which they start: they wait more than they compute. */
export const LONG_FILES: readonly string[] = [
  'e2e/install-cluster',
  'e2e/cluster-networking',
  'contract/install-cluster',
  'e2e/upgrade',
  'e2e/upgrade-trouble',
  'e2e/upgrade-hazards',
  'e2e/uninstall-purge',
  'e2e/standalone-server',
  'e2e/between-nodes-changes',
  'e2e/between-nodes-failures',
  'e2e/operator',
  'e2e/takeover',
  'e2e/agent-restored-etcd',
  'e2e/install',
  'e2e/between-nodes-connectivity',
  'e2e/agent-sidecar',
  'e2e/agent-policy-restart',
  'e2e/agent-plugin-files',
  'e2e/ctl-datastore',
  'e2e/ctl-doctor',
  'e2e/controllers-clusters',
  'e2e/between-nodes-full-pool',
  'e2e/agent',
];

/** Files of test/contract that run on the oldest supported etcd, Debian's, as well: in `make test` only the first. */
export const OLDEST_ETCD: readonly string[] = ['store-kv', 'store-kv-*', 'inspect-datastore'];

/** Returns the share of a long list that NETPLUG_PART names, such as `2/6`, by taking every sixth; all without one. */
export function partOf<T>(items: readonly T[], part = process.env['NETPLUG_PART'] ?? '1/1'): readonly T[] {
  const [, number = 0, parts = 0] = /^([1-9]\d*)\/([1-9]\d*)$/.exec(part)?.map(Number) ?? [];
  if (number > parts || parts === 0) throw new Error(`NETPLUG_PART is "${part}"; allowed is a share such as 2/6`);
  return items.filter((_, index) => index % parts === number - 1);
}

/** Sizes of what is random or repeated. */
export const SIZES = {
  /** Random histories of each simulation. */
  simulations: inExtent({ everyday: 400, soak: 100_000 }),
  /** After that time a simulation hangs: it waits for nothing but the processor, which others use as well. */
  simulationMs: inExtent({ everyday: 900_000, soak: 3_600_000 }),
  /** Seconds for all properties of one fuzzed target: the recorded samples find regressions, minutes find new ways. */
  fuzzSeconds: inExtent({ everyday: 5, soak: 60 }),
  /** How long a cluster has no server of the fan-out. */
  withoutServersSeconds: inExtent({ everyday: 60, soak: 600 }),
  /** Pods that start at once on a cluster. */
  podStorm: inExtent({ everyday: 20, soak: 100 }),
  /** Pods that come and go while controllers die. */
  controllersStorm: inExtent({ everyday: 60, soak: 500 }),
  /** Calls of a bad day on each datastore. An everyday run also ends after a time, on a machine too slow for the calls. */
  callsOnEtcd: inExtent({
    everyday: { calls: 4000, longestMs: 120_000 },
    soak: { calls: 50_000, longestMs: Infinity },
  }),
  callsOnApi: inExtent({ everyday: { calls: 1000, longestMs: 60_000 }, soak: { calls: 10_000, longestMs: Infinity } }),
  policyStorm: inExtent({
    everyday: { pods: 20, policies: 10, rounds: 2, changes: 30, kills: 2, connections: 40 },
    soak: { pods: 200, policies: 50, rounds: 5, changes: 400, kills: 8, connections: 300 },
  }),
};
