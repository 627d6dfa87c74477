// Setup of every file on real parts: tells the reporter the CPU seconds of the file, those of processes that it started and
// waited for included.
import { afterAll } from 'vitest';
import { readUsage } from '../../scripts/test/usage.ts';

declare module 'vitest' {
  interface TaskMeta {
    cpuSeconds?: number;
  }
}

// A process runs several files; this setup runs before each.
const before = readUsage();

// Hooks of the file, which end what it started, run before this one.
// eslint-disable-next-line no-empty-pattern -- vitest wants a pattern in this place
afterAll(({}, file) => {
  const { own, children } = readUsage();
  file.meta.cpuSeconds = own + children - before.own - before.children;
});
