import { defineConfig } from 'vitest/config';
import { LongestFirst } from './scripts/test/longest-first.ts';
import { CLUSTERS, EXTENT, NOT_EVERYDAY, OLDEST_ETCD, SIZES, TWO_MODES, WITH_AGENTS } from './test/runs.ts';
import type { Mode } from './test/support/agent.ts';

// API servers and etcd spend a fifth of their time on garbage; memory is not what is scarce here.
process.env['GOGC'] ??= '300';

/** An API server puts a watch of a kind that is new to it off for a second. */
const patient = {
  pool: 'forks',
  // A process runs file after file: starting one and loading the tree again took a second of the processor for each file.
  isolate: false,
  testTimeout: 120_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 60_000, interval: 150 } },
  setupFiles: './test/support/usage-of-file.ts',
} as const;

/** They share nothing but the processor: pure, or with files of their own. The longest of them wait for time limits. */
const light = { pool: 'threads', isolate: false, maxWorkers: 4, sequence: { groupOrder: 1 } } as const;

/** They have servers and namespaces of their own, and wait for them most of the time. */
const together = { ...patient, maxWorkers: 5, sequence: { groupOrder: 1 } } as const;

/** After the others, one by one. */
const alone = { ...patient, fileParallelism: false, sequence: { groupOrder: 2 } } as const;

/** Their files borrow API servers from the run. */
const borrowing = { globalSetup: 'test/support/api-server-lender.ts' };

const inAgentMode = { NETPLUG_TEST_MODE: 'agent' };
/** They measure how long calls take. */
const TIMED = ['test/e2e/hostile-clients.test.ts'];
/** They want the first packet through, whatever else the machine does. */
const FIRST_PACKETS = ['test/netns/kernel-packets.test.ts'];
/** Always with agents, several on each machine. */
const BETWEEN_NODES = ['test/e2e/between-nodes-*.test.ts'];
const left = EXTENT === 'soak' ? [] : Object.keys(NOT_EVERYDAY).map((name) => `test/${name}.test.ts`);
const oldest = EXTENT === 'soak' ? OLDEST_ETCD : OLDEST_ETCD.slice(0, 1);

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      { test: { name: 'unit', include: ['src/**/*.test.ts', 'scripts/**/*.test.ts'], testTimeout: 120_000, ...light } },
      { test: { name: 'sim', include: ['test/sim/**/*.test.ts'], testTimeout: SIZES.simulationMs, ...light } },
      { test: { name: 'fuzz', include: ['test/fuzz/**/*.test.ts'], ...patient, maxWorkers: 2 } },
      { test: { name: 'netns-timed', include: FIRST_PACKETS, ...alone } },
      { test: { name: 'netns', include: ['test/netns/**/*.test.ts'], exclude: FIRST_PACKETS, ...together } },
      { test: { name: 'e2e-timed', include: TIMED, ...alone } },
      { test: { name: 'contract', include: ['test/contract/**/*.test.ts'], exclude: left, ...borrowing, ...together } },
      {
        test: {
          name: 'contract-oldest-etcd',
          include: oldest.map((name) => `test/contract/${name}.test.ts`),
          env: { NETPLUG_COMPONENTS: 'debian' },
          ...together,
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          exclude: [...filesOf([...WITH_AGENTS, ...CLUSTERS, ...onlyIn('agent')]), ...TIMED, ...BETWEEN_NODES, ...left],
          ...borrowing,
          ...together,
        },
      },
      {
        test: {
          name: 'e2e-agent',
          include: filesOf([...WITH_AGENTS, ...Object.keys(TWO_MODES)]),
          exclude: [...filesOf(onlyIn('standalone')), ...left],
          env: inAgentMode,
          ...borrowing,
          ...together,
        },
      },
      {
        test: {
          name: 'e2e-agent-clusters',
          include: filesOf(CLUSTERS),
          exclude: left,
          env: inAgentMode,
          ...together,
        },
      },
      { test: { name: 'e2e-between-nodes', include: BETWEEN_NODES, exclude: left, ...together } },
    ],
  },
});

function filesOf(names: readonly string[]): string[] {
  return names.map((name) => `test/e2e/${name}.test.ts`);
}

/** Returns the files that this run has in one mode only. */
function onlyIn(mode: Mode): string[] {
  if (EXTENT === 'soak') return [];
  return Object.keys(TWO_MODES).filter((name) => TWO_MODES[name] === mode);
}
