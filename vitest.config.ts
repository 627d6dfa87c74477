import { defineConfig } from 'vitest/config';

const alone = { pool: 'forks', fileParallelism: false, testTimeout: 120_000, hookTimeout: 120_000 } as const;

export default defineConfig({
  test: {
    projects: [
      { test: { name: 'unit', include: ['src/**/*.test.ts', 'scripts/**/*.test.ts'], testTimeout: 20_000 } },
      { test: { name: 'sim', include: ['test/sim/**/*.test.ts'], testTimeout: 120_000 } },
      { test: { name: 'contract', include: ['test/contract/**/*.test.ts'], ...alone } },
      { test: { name: 'netns', include: ['test/netns/**/*.test.ts'], ...alone } },
      { test: { name: 'e2e', include: ['test/e2e/**/*.test.ts'], ...alone } },
    ],
  },
});
