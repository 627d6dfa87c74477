import { expect, it } from 'vitest';
import { poolOf } from '../../test/support/fixtures.ts';
import { Channel } from '../base/channel.ts';
import { NetplugError } from '../base/errors.ts';
import { FollowClient } from './follow-client.ts';
import { type FollowAnswer, PARTS_AHEAD } from './follow-messages.ts';
import { FollowServer } from './follow-server.ts';
import type { FollowedRecord, FollowEvent, FollowStore, Query } from './follow.ts';
import { PATIENCE_MS } from '../../test/support/until.ts';

const queries: readonly Query[] = [{ kind: 'resources', of: 'IPPool' }];

function pool(name: string, version = '1'): FollowedRecord {
  const value = poolOf(name, '10.0.0.0/24');
  return { kind: 'resource', query: 0, key: name, version, which: { kind: 'IPPool', name }, value };
}

/** A store with one stream whose events the test decides, and a channel to it that holds back answers on request. */
function channelTo(): {
  events: Channel<FollowEvent>;
  client: FollowClient;
  server: FollowServer;
  answers: FollowAnswer[];
  held: FollowAnswer[];
  deliver: () => void;
  streams: AbortSignal[];
} {
  const events = new Channel<FollowEvent>();
  const streams: AbortSignal[] = [];
  const store: FollowStore = {
    follow: async function* (_, { signal }) {
      streams.push(signal);
      signal.addEventListener('abort', () => events.close());
      yield* events;
    },
  };
  const [answers, held]: [FollowAnswer[], FollowAnswer[]] = [[], []];
  const server = new FollowServer(store, (answer) => {
    answers.push(structuredClone(answer));
    held.push(structuredClone(answer));
  });
  const client = new FollowClient((request) => server.receive(structuredClone(request)));
  const deliver = (): void => {
    for (const answer of held.splice(0)) client.receive(answer);
  };
  return { events, client, server, answers, held, deliver, streams };
}

it('reassembles a snapshot that is sent in parts', async () => {
  const { events, client, answers, held, deliver } = channelTo();
  const records = Array.from({ length: 5000 }, (_, index) => pool(`p${String(index)}`));
  const watch = client.follow(queries, { signal: new AbortController().signal });
  const first = watch.next();
  events.push({ kind: 'snapshot', records, version: '1' });
  await expect.poll(() => held.length, { timeout: PATIENCE_MS }).toBe(PARTS_AHEAD);
  deliver();
  await expect.poll(() => held.length, { timeout: PATIENCE_MS }).toBe(5000 / 200 - PARTS_AHEAD);
  deliver();
  expect((await first).value).toEqual({ kind: 'snapshot', records, version: '1' });
  expect(answers.every(({ kind }) => kind === 'follow-part')).toBe(true);
  await watch.return(undefined);
});

it('sends a slow follower each record once, in its last state', async () => {
  const { events, client, answers, held, deliver } = channelTo();
  const watch = client.follow(queries, { signal: new AbortController().signal });
  const first = watch.next();
  events.push({ kind: 'snapshot', records: [], version: '0' });
  for (let change = 1; change <= 1000; change += 1)
    events.push({
      kind: 'changes',
      records: [pool(`p${String(change % 3)}`, String(change))],
      version: String(change),
    });
  await expect.poll(() => held.length, { timeout: PATIENCE_MS }).toBe(PARTS_AHEAD);
  deliver();
  await first;
  const seen = new Map<string, string>();
  for await (const event of watch) {
    deliver();
    if (event.kind === 'changes') for (const { key, version } of event.records) seen.set(key, version);
    if (event.version === '1000') break;
  }
  expect(Object.fromEntries(seen)).toEqual({ p0: '999', p1: '1000', p2: '998' });
  expect(answers.length).toBeLessThan(2 * PARTS_AHEAD);
});

it('replaces what a slow follower has not received when the store yields another snapshot', async () => {
  const { events, client, held, deliver } = channelTo();
  const watch = client.follow(queries, { signal: new AbortController().signal });
  const first = watch.next();
  for (let version = 0; version < 100; version += 1)
    events.push({ kind: 'changes', records: [pool('old', String(version))], version: String(version) });
  events.push({ kind: 'snapshot', records: [pool('new')], version: '100' });
  await expect.poll(() => held.length, { timeout: PATIENCE_MS }).toBe(PARTS_AHEAD);
  deliver();
  await first;
  const kinds: string[] = [];
  for await (const { kind } of watch) {
    deliver();
    kinds.push(kind);
    if (kind === 'snapshot') break;
  }
  expect(kinds).toHaveLength(PARTS_AHEAD);
});

it.each(['store/unavailable', 'store/refused'] as const)('reports %s to the follower, with its hint', async (code) => {
  const { events, client, deliver, held } = channelTo();
  const watch = client.follow(queries, { signal: new AbortController().signal });
  const first = watch.next();
  events.fail(new NetplugError(code, 'Cannot use the datastore', { hint: 'Start it', facts: { url: 'http://x' } }));
  await expect.poll(() => held.length, { timeout: PATIENCE_MS }).toBe(1);
  deliver();
  await expect(first).rejects.toMatchObject({ code, hint: 'Start it', facts: { url: 'http://x' } });
});

it('ends the stream of the store when the follower ends', async () => {
  const { client, streams } = channelTo();
  const stop = new AbortController();
  const first = client.follow(queries, { signal: stop.signal }).next();
  await expect.poll(() => streams.length, { timeout: PATIENCE_MS }).toBe(1);
  stop.abort();
  expect(await first).toEqual({ done: true, value: undefined });
  expect(streams[0]?.aborted).toBe(true);
});

it('ends the stream of the store when the process of the follower is gone', async () => {
  const { client, server, streams } = channelTo();
  void client.follow(queries, { signal: new AbortController().signal }).next();
  await expect.poll(() => streams.length, { timeout: PATIENCE_MS }).toBe(1);
  server.close();
  expect(streams[0]?.aborted).toBe(true);
});

it('begins no stream for a follower that has ended', () => {
  const { client, server, streams } = channelTo();
  server.close();
  void client.follow(queries, { signal: new AbortController().signal }).next();
  expect(streams).toEqual([]);
});
