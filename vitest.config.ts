import { defineConfig } from 'vitest/config';

/** An API server puts a watch of a kind that is new to it off for a second. */
const patient = {
  pool: 'forks',
  testTimeout: 120_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 10_000 } },
} as const;

/** They share nothing but the processor: pure, or with files of their own. */
const light = { pool: 'threads', isolate: false, maxWorkers: 4 } as const;

/** They have servers and namespaces of their own, and wait for them most of the time. */
const together = { ...patient, maxWorkers: 4, sequence: { groupOrder: 1 } } as const;

/** After the others, one by one. */
const alone = { ...patient, fileParallelism: false, sequence: { groupOrder: 2 } } as const;

const isSoak = process.env['NETPLUG_SOAK'] === '1';
const inAgentMode = { NETPLUG_TEST_MODE: 'agent' };
/** With agents that keep the network, and so always with agents. */
const ROUTED_CLUSTERS = [
  'test/e2e/{cluster-features,cluster-networking,cyclonus,image-roll,install-cluster,install-hazards,playground,kubernetes-upgrade,sig-network,upgrade-cluster,upgrade-cluster-hazards}.test.ts',
];
const CLUSTERS = ['test/e2e/{cluster,cluster-datastores-*,orch-pods}.test.ts', ...ROUTED_CLUSTERS];
/** They run on the oldest etcd that netplug supports as well, which is Debian's. */
const ON_ETCD = ['test/contract/{store-kv,store-kv-*,inspect-datastore}.test.ts'];
/** Always with agents. */
const BETWEEN_NODES = ['test/e2e/between-nodes-*.test.ts'];
/** They measure how long calls take. */
const TIMED = ['test/e2e/hostile-clients.test.ts'];
/** They want the first packet through, whatever else the machine does. */
const FIRST_PACKETS = ['test/netns/kernel-packets.test.ts'];
const ONLY_AGENT = ['test/e2e/agent*.test.ts'];
/** Without an agent of the node, or with agents that they start themselves. */
const ONLY_ONCE = [
  'test/e2e/{controllers*,deb-package,images*,install-executables,network-process,operator*,rights,shim,soak*,standalone-server,standalone-tls,takeover,trace,uninstall-purge,upgrade-releases}.test.ts',
];
/** The tool against a datastore; those that want an agent start one. */
const TOOL = [
  'test/e2e/{ctl-resources,ctl-ipam,ctl-why,ctl-policy,ctl-host-endpoints,ctl-doctor,ctl-diags,ctl-shells,plans-killed,tasks,upgrade,upgrade-fleet,upgrade-hazards,upgrade-identity,upgrade-trouble}.test.ts',
];
/** Minutes each, for what smaller tests show as well, or what seldom changes: only in `make soak`. test/e2e/README.md has what runs where. */
const HEAVY = isSoak
  ? []
  : ['test/e2e/{cluster,cluster-datastores-*,cluster-features,images-reproducible,orch-pods,playground}.test.ts'];

export default defineConfig({
  test: {
    projects: [
      { test: { name: 'unit', include: ['src/**/*.test.ts', 'scripts/**/*.test.ts'], testTimeout: 20_000, ...light } },
      { test: { name: 'sim', include: ['test/sim/**/*.test.ts'], testTimeout: 120_000, ...light } },
      { test: { name: 'fuzz', include: ['test/fuzz/**/*.test.ts'], ...patient, maxWorkers: 2 } },
      { test: { name: 'netns-timed', include: FIRST_PACKETS, ...alone } },
      { test: { name: 'netns', include: ['test/netns/**/*.test.ts'], exclude: FIRST_PACKETS, ...together } },
      { test: { name: 'e2e-timed', include: TIMED, ...alone } },
      { test: { name: 'contract', include: ['test/contract/**/*.test.ts'], ...together } },
      {
        test: { name: 'contract-oldest-etcd', include: ON_ETCD, env: { NETPLUG_COMPONENTS: 'debian' }, ...together },
      },
      {
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          exclude: [...ONLY_AGENT, ...TIMED, ...BETWEEN_NODES, ...ROUTED_CLUSTERS, ...HEAVY],
          ...together,
        },
      },
      {
        test: {
          name: 'e2e-agent',
          include: ['test/e2e/**/*.test.ts'],
          exclude: [...TIMED, ...ONLY_ONCE, ...CLUSTERS, ...BETWEEN_NODES, ...TOOL],
          env: inAgentMode,
          ...together,
        },
      },
      { test: { name: 'e2e-agent-clusters', include: CLUSTERS, exclude: HEAVY, env: inAgentMode, ...together } },
      { test: { name: 'e2e-between-nodes', include: BETWEEN_NODES, ...together } },
    ],
  },
});
