import { Channel } from './channel.ts';

/**
 * Yields the items of several streams as they come, with the index of their stream. When the reader stops, or a stream fails,
 * all streams are aborted and have ended before this one ends.
 * @param begin begins the streams, which end when the given signal aborts
 */
export async function* mergeStreams<T>(
  begin: (signal: AbortSignal) => readonly AsyncIterable<T>[],
  signal: AbortSignal,
): AsyncGenerator<{ readonly index: number; readonly item: T }> {
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  const items = new Channel<{ readonly index: number; readonly item: T }>();
  either.addEventListener('abort', () => items.close(), { once: true });
  const pumps = begin(either).map(async (stream, index) => {
    try {
      for await (const item of stream) items.push({ index, item });
    } catch (cause) {
      items.fail(cause);
    }
  });
  try {
    yield* items;
  } finally {
    over.abort();
    await Promise.all(pumps);
  }
}
