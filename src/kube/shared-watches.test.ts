import { afterAll, describe, expect, it } from 'vitest';
import { Channel } from '../base/channel.ts';
import { systemClock } from '../base/clock.ts';
import type { ApiObject } from './objects.ts';
import { PODS } from './paths.ts';
import { type JoinOptions, type Relay, type SharedEvent, SharedWatches, type StartWatch } from './shared-watches.ts';
import { trimmedObject } from './trimmed-object.ts';
import { WatchRelay } from './watch-relay.ts';
import type { StreamState, WatchEvent } from './watch.ts';
import { PATIENCE_MS } from '../../test/support/until.ts';

function object(name: string, resourceVersion = '1', more: object = {}): ApiObject {
  return { metadata: { name, resourceVersion, managedFields: ['long'], ...more } };
}

/** Watches of one kind that the test feeds. */
function watched(relay?: Relay): {
  follow: (signal?: AbortSignal, options?: Partial<JoinOptions>) => AsyncGenerator<SharedEvent>;
  feeds: Channel<WatchEvent>[];
  /** The versions that the watches started from. */
  starts: (string | undefined)[];
  signals: AbortSignal[];
  note: (state: StreamState) => void;
} {
  const watches = new SharedWatches();
  if (relay !== undefined) watches.relay('pools', relay);
  const feeds: Channel<WatchEvent>[] = [];
  const starts: (string | undefined)[] = [];
  const signals: AbortSignal[] = [];
  let noteState: ((state: StreamState) => void) | undefined;
  const start: StartWatch = ({ from, onStream }, signal) => {
    const feed = new Channel<WatchEvent>();
    signal.addEventListener('abort', () => feed.close());
    feeds.push(feed);
    starts.push(from);
    signals.push(signal);
    noteState = onStream;
    return feed;
  };
  const trim = (each: ApiObject): ApiObject => trimmedObject(PODS, each);
  const never = new AbortController().signal;
  return {
    follow: (signal = never, { onStream = () => undefined, isFresh = false } = {}) =>
      watches.follow('pools', { start, trim, onStream, isFresh }, signal),
    feeds,
    starts,
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
  await expect.poll(() => feeds.length, { timeout: PATIENCE_MS }).toBe(2);
});

it('fails all followers with the watch, and starts another for the next', async () => {
  const { follow, feeds } = watched();
  const both = [follow().next(), follow().next()];
  const lost = new Error('lost');
  feeds[0]?.fail(lost);
  for (const each of both) await expect(each).rejects.toBe(lost);
  void follow().next();
  await expect.poll(() => feeds.length, { timeout: PATIENCE_MS }).toBe(2);
});

it('reports to every follower whether the watch is current, also to one that joins later', async () => {
  const { follow, note } = watched();
  const states: string[][] = [[], []];
  const never = new AbortController().signal;
  void follow(never, { onStream: (state) => states[0]?.push(state) }).next();
  note('opened');
  void follow(never, { onStream: (state) => states[1]?.push(state) }).next();
  note('received');
  note('broken');
  expect(states).toEqual([
    ['opened', 'received', 'broken'],
    ['opened', 'received', 'broken'],
  ]);
});

it('lists the objects again for a follower that takes nothing old, and reports the differences to the others', async () => {
  const { follow, feeds, starts, signals } = watched();
  const old = follow();
  const first = old.next();
  feeds[0]?.push({ kind: 'all', objects: [object('a'), object('b')], version: '1' });
  await first;
  const fresh = follow(undefined, { isFresh: true }).next();
  await expect.poll(() => feeds.length, { timeout: PATIENCE_MS }).toBe(2);
  expect([starts, signals[0]?.aborted]).toEqual([[undefined, undefined], true]);
  feeds[1]?.push({ kind: 'all', objects: [object('a', '3')], version: '3' });
  expect((await fresh).value).toMatchObject({ kind: 'all', objects: [{ metadata: { resourceVersion: '3' } }] });
  expect(line((await old.next()).value)).toBe('1>- 1>3');
});

describe('objects that another process relays', () => {
  const scope = new DisposableStack();
  afterAll(() => scope.dispose());
  const makeRelay = (clock = systemClock): WatchRelay => scope.use(new WatchRelay(clock));
  const all = (version: string, ...objects: ApiObject[]): SharedEvent => ({ kind: 'all', objects, version });
  const put = (version: string, after: ApiObject): SharedEvent => ({
    kind: 'changes',
    changes: [{ before: undefined, after }],
    version,
  });

  it('need no watch', async () => {
    const relay = makeRelay();
    relay.receive(all('7', object('a', '5')));
    relay.receive({ kind: 'stream', state: 'opened' });
    const { follow, feeds } = watched(relay);
    const states: StreamState[] = [];
    const watch = follow(undefined, { onStream: (state) => states.push(state) });
    expect(line((await watch.next()).value)).toBe('all a');
    relay.receive(put('8', object('b', '8')));
    expect(line((await watch.next()).value)).toBe('->8');
    relay.receive({ kind: 'stream', state: 'broken' });
    expect([feeds, states]).toEqual([[], ['opened', 'received', 'broken']]);
  });

  it('are not taken over while the other process doubts them, and are not given up', async () => {
    const relay = makeRelay();
    relay.receive(all('7', object('a', '5')));
    relay.receive({ kind: 'stream', state: 'opened' });
    const { follow, feeds, signals } = watched(relay);
    const before = follow();
    await before.next();
    relay.receiveState('doubtful');
    expect([relay.current, feeds.length]).toEqual([undefined, 0]);
    // A list of the API is newer, whatever the numbers say: the datastore may have been restored.
    const fresh = follow(undefined, { isFresh: true }).next();
    feeds[0]?.push({ kind: 'all', objects: [object('a', '3')], version: '4' });
    expect(line((await fresh).value)).toBe('all a');
    expect(signals[0]?.aborted).toBe(false);
    relay.receiveState({ current: '9' });
    expect(relay.current?.version).toBe('9');
  });

  it('are not what comes late from a process that has ended', () => {
    const relay = makeRelay();
    relay.receive(all('7', object('a', '5'), object('b', '6')));
    relay.receive({ kind: 'stream', state: 'opened' });
    relay.disconnect();
    relay.receive(put('8', object('b', '8')));
    relay.receive({ kind: 'stream', state: 'opened' });
    expect(relay.current).toBeUndefined();
    relay.receive(all('9', object('a', '5')));
    expect(relay.current?.objects).toHaveLength(1);
  });

  it('lead to an own watch when they go back to an older state', async () => {
    const relay = makeRelay();
    relay.receive(all('7', object('a', '5')));
    relay.receive({ kind: 'stream', state: 'opened' });
    const { follow, feeds } = watched(relay);
    await follow().next();
    relay.receive(put('3', object('a', '3')));
    expect(feeds).toHaveLength(1);
  });

  it('end the own watch as soon as they are not older than what that has reported', async () => {
    const relay = makeRelay();
    const { follow, feeds, signals } = watched(relay);
    const watch = follow();
    const first = watch.next();
    feeds[0]?.push({ kind: 'all', objects: [object('a', '5'), object('b', '9')], version: '10' });
    await first;
    relay.receive({ kind: 'stream', state: 'opened' });
    relay.receive(all('8', object('a', '5'), object('gone', '6')));
    feeds[0]?.push({ kind: 'bookmark', version: '20' });
    await watch.next();
    expect(signals[0]?.aborted).toBe(false);
    relay.receive({
      kind: 'changes',
      changes: [
        { before: undefined, after: object('b', '9') },
        { before: object('gone', '6'), after: undefined },
      ],
      version: '10',
    });
    expect(signals[0]?.aborted).toBe(true);
    expect((await watch.next()).value).toEqual({ kind: 'changes', changes: [], version: '10' });
    relay.receive(put('11', object('a', '11')));
    expect(line((await watch.next()).value)).toBe('5>11');
  });

  it('end the own watch when nothing has changed since they were sent, although its list has a later version', async () => {
    const relay = makeRelay();
    const { follow, feeds, signals } = watched(relay);
    const first = follow().next();
    const { managedFields: _, ...metadata } = object('a', '5').metadata;
    relay.receive({ kind: 'stream', state: 'opened' });
    relay.receive(all('7', { metadata: { ...metadata, resourceVersion: '4' }, spec: {}, status: {} }));
    feeds[0]?.push({ kind: 'all', objects: [object('a', '5')], version: '10' });
    await first;
    expect(signals[0]?.aborted).toBe(false);
    relay.receive(put('8', { metadata, spec: {}, status: {} }));
    expect(signals[0]?.aborted).toBe(true);
  });

  it('are watched again without a list, from where they were, when that process ends', async () => {
    const relay = makeRelay();
    relay.receive({ kind: 'stream', state: 'opened' });
    relay.receive(all('7', object('a', '5')));
    const { follow, feeds, starts } = watched(relay);
    const states: StreamState[] = [];
    const watch = follow(undefined, { onStream: (state) => states.push(state) });
    await watch.next();
    relay.receive({ kind: 'changes', changes: [], version: '9' });
    relay.disconnect();
    expect([starts, states]).toEqual([['9'], ['opened', 'received', 'broken']]);
    feeds[0]?.push({ kind: 'changed', object: object('a', '12'), version: '12' });
    expect(line((await watch.next()).value)).toBe('5>12');
    // Its successor.
    relay.receive(all('11', object('a', '5')));
    relay.receive({ kind: 'stream', state: 'opened' });
    expect(starts).toHaveLength(1);
    relay.receive(put('12', object('a', '12')));
    relay.receive(put('13', object('b', '13')));
    expect(line((await watch.next()).value)).toBe('');
    expect(line((await watch.next()).value)).toBe('->13');
  });

  it('are watched again while that process hangs', async () => {
    let nowMs = 0;
    const clock = { ...systemClock, monotonic: () => nowMs };
    const relay = makeRelay(clock);
    relay.receive({ kind: 'stream', state: 'opened' });
    relay.receive(all('7', object('a', '5')));
    const { follow, signals, starts } = watched(relay);
    await follow().next();
    nowMs = 60_000;
    await expect.poll(() => starts, { timeout: PATIENCE_MS }).toEqual(['7']);
    expect(relay.current).toBeUndefined();
    relay.receive({ kind: 'changes', changes: [], version: '7' });
    expect(signals[0]?.aborted).toBe(true);
  });

  it('do not serve a follower that takes nothing old until they are as new as its list', async () => {
    const relay = makeRelay();
    relay.receive({ kind: 'stream', state: 'opened' });
    relay.receive(all('7', object('a', '5')));
    const { follow, feeds, signals } = watched(relay);
    const fresh = follow(undefined, { isFresh: true }).next();
    relay.receive(put('8', object('a', '8')));
    feeds[0]?.push({ kind: 'all', objects: [object('a', '9')], version: '9' });
    expect((await fresh).value).toMatchObject({ objects: [{ metadata: { resourceVersion: '9' } }] });
    expect(signals[0]?.aborted).toBe(false);
    relay.receive(put('9', object('a', '9')));
    expect(signals[0]?.aborted).toBe(true);
  });
});
