import { systemClock } from '../../src/base/clock.ts';
import { MemoryLeases } from '../../src/datastore/memory/memory-leases.ts';
import { leaderContract } from './suites/runtime/leader.ts';

leaderContract('memory', async () => {
  const leases = new MemoryLeases(systemClock);
  const end = async (): Promise<void> => Promise.resolve();
  await end();
  return {
    candidate: (options) => Object.assign(leases.candidate(options), { [Symbol.asyncDispose]: end }),
    [Symbol.asyncDispose]: end,
  };
});
