import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { mergeStreams } from './merge-streams.ts';

const never = new AbortController().signal;

it('yields the items of all streams with the index of their stream, as they come', async () => {
  const items = [];
  for await (const { index, item } of mergeStreams((signal) => [late('b', signal), early('a')], never)) {
    items.push([index, item]);
    if (items.length === 2) break;
  }
  expect(items).toEqual([
    [1, 'a'],
    [0, 'b'],
  ]);
});

it('ends all streams before it throws the failure of one', async () => {
  const ended: string[] = [];
  const read = async (): Promise<void> => {
    for await (const _ of mergeStreams((signal) => [until(signal, ended), failing()], never));
  };
  await expect(read()).rejects.toThrow('broken');
  expect(ended).toEqual(['stream']);
});

it('ends all streams before a reader that stops goes on', async () => {
  const ended: string[] = [];
  for await (const _ of mergeStreams((signal) => [until(signal, ended), early('a')], never)) break;
  expect(ended).toEqual(['stream']);
});

it('ends when its signal aborts', async () => {
  const ended: string[] = [];
  const over = new AbortController();
  setTimeout(() => over.abort(), 5);
  for await (const _ of mergeStreams((signal) => [until(signal, ended)], over.signal));
  expect(ended).toEqual(['stream']);
});

async function* early(item: string): AsyncGenerator<string> {
  yield await Promise.resolve(item);
}

async function* late(item: string, signal: AbortSignal): AsyncGenerator<string> {
  await sleep(20, undefined, { signal });
  yield item;
}

async function* failing(): AsyncGenerator<string> {
  yield await Promise.reject(new Error('broken'));
}

/** Takes a moment to end after its signal aborts. */
async function* until(signal: AbortSignal, ended: string[]): AsyncGenerator<string> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  await sleep(5);
  ended.push('stream');
  yield* [];
}
