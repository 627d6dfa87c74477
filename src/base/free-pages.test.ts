import { expect, it } from 'vitest';
import { systemClock } from './clock.ts';
import { FreePages, releaseAfterStart } from './free-pages.ts';

const MB = 1024 * 1024;

it('free pages are returned once after a heap that was large, and not where other memory has grown', () => {
  let nowMs = 0;
  let usage = { rss: 60 * MB, heapTotal: 20 * MB };
  let collections = 0;
  let leaves = 0;
  const pages = new FreePages({
    monotonic: () => nowMs,
    usage: () => usage,
    collect: () => {
      collections += 1;
      usage = { ...usage, rss: usage.heapTotal + leaves };
    },
  });
  const at = (seconds: number, rss: number, heapTotal: number): number => {
    nowMs = seconds * 1000;
    usage = { rss: rss * MB, heapTotal: heapTotal * MB };
    pages.look();
    return collections;
  };
  leaves = 45 * MB;
  expect(at(10, 70, 25)).toBe(0);
  expect(at(20, 240, 200)).toBe(0);
  // The list was read: the heap is smaller, and its pages are kept.
  expect(at(30, 240, 100)).toBe(1);
  expect(usage.rss).toBe(145 * MB);
  // Not again at once, whatever happens.
  expect(at(40, 300, 100)).toBe(1);
  // Clients have come, whose memory is not of the heap.
  leaves = 180 * MB;
  expect(at(700, 290, 110)).toBe(2);
  expect(at(1400, 290, 110)).toBe(2);
  // A fifth of all is not worth it.
  expect(at(2100, 3000, 2300)).toBe(2);
  expect(at(2800, 3000, 2000)).toBe(3);
  // They have gone, and later a list comes again.
  expect(at(3500, 150, 110)).toBe(3);
  expect(at(3600, 200, 110)).toBe(4);
});

it('what the start has left is returned once, when the program is not busy', async () => {
  const over = new AbortController();
  let busyFor = 3;
  let releases = 0;
  const slept: number[] = [];
  const clock = {
    sleep: async (ms: number): Promise<void> => {
      slept.push(ms);
      return Promise.resolve();
    },
  };
  const isBusy = (): boolean => (busyFor -= 1) >= 0;
  await releaseAfterStart({ release: () => (releases += 1) }, { clock, isBusy }, over.signal);
  expect([releases, slept]).toEqual([1, [30_000, 1000, 1000, 1000]]);
});

it('nothing is returned by a program that ends before', async () => {
  const over = new AbortController();
  let releases = 0;
  const isBusy = (): boolean => false;
  const done = releaseAfterStart({ release: () => (releases += 1) }, { clock: systemClock, isBusy }, over.signal);
  over.abort();
  await done;
  expect(releases).toBe(0);
});
