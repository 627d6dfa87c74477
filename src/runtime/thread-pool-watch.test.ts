import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { virtualClock } from '../base/clock.ts';
import { threadFailures, ThreadPoolWatch } from './thread-pool-watch.ts';

const NEVER = new AbortController().signal;

it('finds no fault with a pool that has a free thread, however often it is asked', async () => {
  const clock = virtualClock(0);
  const watch = new ThreadPoolWatch(clock, async () => Promise.resolve());
  for (let asked = 0; asked < 5; asked += 1) {
    expect(threadFailures(watch)).toEqual([]);
    await setImmediate();
    await clock.sleep(60_000, NEVER);
  }
});

it('says for how long all threads have been held by reads that do not end, and notices when they have ended', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'npl-threads-'));
  // More than the pool has threads.
  const fifos = Array.from({ length: 16 }, (_, index) => join(folder, String(index)));
  execFileSync('mkfifo', fifos);
  const readers = fifos.map(async (path) => open(path));
  const clock = virtualClock(0);
  const watch = new ThreadPoolWatch(clock);
  try {
    expect(watch.stuckMs()).toBe(0);
    await clock.sleep(9000, NEVER);
    expect(watch.stuckMs()).toBe(0);
    await clock.sleep(3000, NEVER);
    expect(threadFailures(watch)).toEqual(['threads: none has been free for 12 s: files and names are not read']);
  } finally {
    // A process whose threads are held does not end.
    const writers = fifos.map((path) => openSync(path, constants.O_RDWR));
    for (const reader of readers) await (await reader).close();
    writers.forEach(closeSync);
    rmSync(folder, { recursive: true });
  }
  await expect.poll(() => watch.stuckMs()).toBe(0);
});
