import { defineConfig } from 'vitest/config';

const alone = { pool: 'forks', fileParallelism: false, testTimeout: 120_000, hookTimeout: 120_000 } as const;

const twoAtATime = { fileParallelism: true, maxWorkers: 2 } as const;

const isSoak = process.env['NETPLUG_SOAK'] === '1';
const inAgentMode = { NETPLUG_TEST_MODE: 'agent' };
/** With agents that keep the network, and so always with agents. */
const ROUTED_CLUSTERS = ['test/e2e/{cluster-networking,sig-network}.test.ts'];
const CLUSTERS = ['test/e2e/{cluster,cluster-datastores-*,orch-pods}.test.ts', ...ROUTED_CLUSTERS];
/** Always with agents. */
const BETWEEN_NODES = ['test/e2e/between-nodes-*.test.ts'];
/** Six minutes: without an agent only in `make soak`. test/e2e/README.md says what runs where. */
const SLOW = ['test/e2e/{cluster-datastores-*,orch-pods}.test.ts'];

export default defineConfig({
  test: {
    projects: [
      { test: { name: 'unit', include: ['src/**/*.test.ts', 'scripts/**/*.test.ts'], testTimeout: 20_000 } },
      { test: { name: 'sim', include: ['test/sim/**/*.test.ts'], testTimeout: 120_000 } },
      // Servers of their own, most of the time waited for.
      {
        test: {
          name: 'contract',
          include: ['test/contract/**/*.test.ts'],
          ...alone,
          ...twoAtATime,
          sequence: { groupOrder: 1 },
        },
      },
      { test: { name: 'netns', include: ['test/netns/**/*.test.ts'], ...alone } },
      {
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          exclude: ['**/agent*.test.ts', ...BETWEEN_NODES, ...ROUTED_CLUSTERS, ...(isSoak ? [] : SLOW)],
          ...alone,
        },
      },
      {
        test: {
          name: 'e2e-agent',
          include: ['test/e2e/**/*.test.ts'],
          exclude: ['**/{shim,trace,soak,takeover,event-loop,hostile-clients}.test.ts', ...CLUSTERS, ...BETWEEN_NODES],
          env: inAgentMode,
          ...alone,
        },
      },
      {
        test: {
          name: 'e2e-agent-clusters',
          include: CLUSTERS,
          env: inAgentMode,
          ...alone,
          // They wait for kubelets most of the time.
          ...twoAtATime,
          sequence: { groupOrder: 2 },
        },
      },
      {
        test: {
          name: 'e2e-between-nodes',
          include: BETWEEN_NODES,
          ...alone,
          // They wait for routes and let packets flow most of the time.
          ...twoAtATime,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
});
