import { expect, it } from 'vitest';
import { Channel } from '../base/channel.ts';
import type { ApiObject } from './objects.ts';
import { PODS } from './paths.ts';
import { type SharedEvent, SharedWatches } from './shared-watches.ts';
import { trimmedObject } from './trimmed-object.ts';
import type { StreamState, WatchEvent } from './watch.ts';

function object(name: string, resourceVersion = '1', more: object = {}): ApiObject {
  return { metadata: { name, resourceVersion, managedFields: ['long'], ...more } };
}

/** Watches of one kind that the test feeds. */
function watched(): {
  follow: (signal?: AbortSignal, onStream?: (state: StreamState) => void) => AsyncGenerator<SharedEvent>;
  feeds: Channel<WatchEvent>[];
  signals: AbortSignal[];
  note: (state: StreamState) => void;
} {
  const watches = new SharedWatches();
  const feeds: Channel<WatchEvent>[] = [];
  const signals: AbortSignal[] = [];
  let noteState: ((state: StreamState) => void) | undefined;
  const start = (onStream: (state: StreamState) => void, signal: AbortSignal): AsyncIterable<WatchEvent> => {
    const feed = new Channel<WatchEvent>();
    signal.addEventListener('abort', () => feed.close());
    feeds.push(feed);
    signals.push(signal);
    noteState = onStream;
    return feed;
  };
  const trim = (each: ApiObject): ApiObject => trimmedObject(PODS, each);
  const never = new AbortController().signal;
  return {
    follow: (signal = never, onStream = () => undefined) => watches.follow('pools', { start, trim, onStream }, signal),
    feeds,
    signals,
    note: (state) => noteState?.(state),
  };
}

function line(event: SharedEvent | undefined): string {
  if (event?.kind === 'all') return `all ${event.objects.map(({ metadata }) => metadata.name).join(' ')}`;
  return (event?.changes ?? [])
    .map(({ before, after }) => `${before?.metadata.resourceVersion ?? '-'}>${after?.metadata.resourceVersion ?? '-'}`)
    .join(' ');
}

it('starts one watch for all followers, and gives a late one what is cached', async () => {
  const { follow, feeds } = watched();
  const [first, second] = [follow(), follow()];
  const both = [first.next(), second.next()];
  feeds[0]?.push({ kind: 'all', objects: [object('a')], version: '1' });
  expect((await Promise.all(both)).map(({ value }) => line(value))).toEqual(['all a', 'all a']);
  feeds[0]?.push({ kind: 'changed', object: object('b', '2'), version: '2' });
  expect(line((await first.next()).value)).toBe('->2');
  const third = follow();
  expect((await third.next()).value).toMatchObject({ kind: 'all', objects: [{}, {}], version: '2' });
  expect(feeds).toHaveLength(1);
});

it('reports after another list only what differs, and drops who wrote which field', async () => {
  const { follow, feeds } = watched();
  const watch = follow();
  const first = watch.next();
  feeds[0]?.push({ kind: 'all', objects: [object('a'), object('b'), object('c')], version: '1' });
  expect((await first).value).toMatchObject({ objects: [{ metadata: { name: 'a' } }, {}, {}] });
  expect(JSON.stringify((await first).value)).not.toContain('managedFields');
  // The version of an object is no proof: a restored API server uses versions again.
  const other = object('c', '1', { labels: { rack: '7' } });
  feeds[0]?.push({ kind: 'all', objects: [object('b'), other, object('d', '5')], version: '5' });
  expect(line((await watch.next()).value)).toBe('1>- 1>1 ->5');
  feeds[0]?.push({ kind: 'changed', object: object('d', '5'), version: '5' });
  expect((await watch.next()).value).toEqual({ kind: 'changes', changes: [], version: '5' });
});

it('ends the watch with its last follower, and starts another for the next', async () => {
  const { follow, feeds, signals } = watched();
  const stop = new AbortController();
  const [first, second] = [follow(stop.signal), follow()];
  const both = [first.next(), second.next()];
  feeds[0]?.push({ kind: 'all', objects: [], version: '1' });
  await Promise.all(both);
  stop.abort();
  expect((await first.next()).done).toBe(true);
  expect(signals[0]?.aborted).toBe(false);
  await second.return(undefined);
  expect(signals[0]?.aborted).toBe(true);
  void follow().next();
  await expect.poll(() => feeds.length).toBe(2);
});

it('fails all followers with the watch, and starts another for the next', async () => {
  const { follow, feeds } = watched();
  const both = [follow().next(), follow().next()];
  const lost = new Error('lost');
  feeds[0]?.fail(lost);
  for (const each of both) await expect(each).rejects.toBe(lost);
  void follow().next();
  await expect.poll(() => feeds.length).toBe(2);
});

it('reports to every follower whether the watch is current, also to one that joins later', async () => {
  const { follow, note } = watched();
  const states: string[][] = [[], []];
  const never = new AbortController().signal;
  void follow(never, (state) => states[0]?.push(state)).next();
  note('opened');
  void follow(never, (state) => states[1]?.push(state)).next();
  note('received');
  note('broken');
  expect(states).toEqual([
    ['opened', 'received', 'broken'],
    ['opened', 'received', 'broken'],
  ]);
});
