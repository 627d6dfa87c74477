import { expect, it } from 'vitest';
import { nodeName } from '../../../test/support/fixtures.ts';
import { systemClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import { datastoreIdOf } from './datastore-id.ts';
import { OtherRuns } from './other-runs.ts';

it('looks for journals of runs that have ended, and never rejects, although their folder cannot be read', async () => {
  const ports = {
    store: openMemoryStore(),
    clock: systemClock,
    random: systemRandom,
    log: silentLog,
    host: { machine: 'n1', boot: 'one' },
    // Too long for the kernel, which says something else than that it is missing.
    place: { folder: `/${'x'.repeat(5000)}`, tryLock: () => true },
    listAttached: () => new Set<string>(),
  };
  const scope = { datastore: datastoreIdOf('kvv3', 'one'), node: nodeName('n1'), ownRun: 'run' };
  await expect(new OtherRuns(ports, scope).recoverEnded(new AbortController().signal)).resolves.toBeUndefined();
});
