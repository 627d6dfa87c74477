import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TopicCursor, TopicFeed, type TopicPart } from './topic-feed.ts';
import { Relist, TopicLog } from './topic-log.ts';

type Sent = (TopicPart & { readonly length: number }) | { readonly isComplete: true; readonly length: number };

function feedOf(
  mostDeletions = 10_000,
  clock = { ms: 0 },
  limits = { partBytes: 10_000, slice: 200 },
): TopicFeed<Sent> {
  const log = new TopicLog({ mostDeletions });
  return new TopicFeed<Sent>(
    {
      encode: (part) => ({ ...part, length: part.entries.length }),
      encodeComplete: () => ({ isComplete: true, length: 0 }),
      monotonic: () => clock.ms,
      changed: () => undefined,
      limits,
    },
    log,
  );
}

/** What a follower makes of frames: it holds a snapshot until it is complete. */
class Follower {
  cursor = new TopicCursor<Sent>();
  live: Map<string, string> | undefined;
  staged: Map<string, string> | undefined;
  received = 0;

  take(sent: Sent): void {
    if ('isComplete' in sent) {
      this.live = this.staged;
      this.staged = undefined;
      return;
    }
    if (sent.isFirst) this.staged = new Map();
    const into = this.staged ?? this.live;
    if (into === undefined) throw new Error('changes before a snapshot');
    for (const { key, text } of sent.entries) {
      this.received += 1;
      if (text === undefined) into.delete(key);
      else into.set(key, text);
    }
  }
}

function drain(feed: TopicFeed<Sent>, follower: Follower): void {
  for (;;) {
    const sent = feed.next(follower.cursor);
    if (sent !== undefined) follower.take(sent);
    else if (feed.isBuilding) feed.build();
    else return;
  }
}

const key = fc.integer({ min: 0, max: 12 }).map((number) => `k${String(number)}`);
const text = fc.integer({ min: 0, max: 3 }).map(String);
const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('put' as const), key, text }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('delete' as const), key }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('relist' as const), listed: fc.dictionary(key, text) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('flush' as const) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('build' as const) }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('send' as const), to: fc.nat({ max: 2 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('begin' as const), who: fc.nat({ max: 2 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.nat({ max: 3000 }) }) },
);

describe('a topic that is fed to followers', () => {
  it('ends with the same records at each follower, and no follower lacks a record that existed throughout', () => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 200, size: 'max' }),
        fc.constantFrom(1, 3, 10_000),
        (steps, mostDeletions) => {
          const clock = { ms: 0 };
          const feed = feedOf(mostDeletions, clock, { partBytes: 4, slice: 2 });
          const records = new Map<string, string>();
          const followers = [new Follower(), new Follower(), new Follower()];
          /** Of each follower: the records that have existed since it began. */
          const throughout = followers.map(() => new Set<string>());
          for (const one of steps) {
            switch (one.kind) {
              case 'put':
                records.set(one.key, one.text);
                feed.log.put(one.key, one.text, clock.ms);
                break;
              case 'delete':
                records.delete(one.key);
                feed.log.delete(one.key, clock.ms);
                for (const each of throughout) each.delete(one.key);
                break;
              case 'relist': {
                const listed = new Relist(feed.log);
                for (const [name, value] of Object.entries(one.listed)) listed.put(name, value, clock.ms);
                listed.end(clock.ms);
                records.clear();
                for (const [name, value] of Object.entries(one.listed)) records.set(name, value);
                for (const each of throughout) for (const name of each) if (!records.has(name)) each.delete(name);
                break;
              }
              case 'flush':
                feed.flush();
                break;
              case 'build':
                feed.build();
                break;
              case 'pass':
                clock.ms += one.ms;
                break;
              case 'begin': {
                // It moves here with what it has: its records stay until the snapshot is complete.
                const follower = followers[one.who];
                if (follower === undefined) break;
                follower.cursor = new TopicCursor();
                follower.staged = undefined;
                throughout[one.who] = new Set(records.keys());
                break;
              }
              case 'send': {
                const follower = followers[one.to];
                const sent = follower === undefined ? undefined : feed.next(follower.cursor);
                if (sent !== undefined) follower?.take(sent);
              }
            }
            for (const [index, { live, cursor }] of followers.entries()) {
              if (live === undefined || cursor.completeAt !== undefined) continue;
              for (const kept of throughout[index] ?? []) expect(live.has(kept)).toBe(true);
            }
          }
          feed.flush();
          for (const follower of followers) {
            drain(feed, follower);
            expect(follower.live).toEqual(records);
            expect(follower.staged).toBeUndefined();
          }
          expect(feed.log.size).toBe(records.size);
          expect(new Set(feed.log.keys())).toEqual(new Set(records.keys()));
        },
      ),
      { numRuns: 300 },
    );
  });

  it('builds one snapshot for all who begin while it is built, or shortly after', () => {
    const clock = { ms: 0 };
    const feed = feedOf(10, clock);
    for (let index = 0; index < 1000; index += 1) feed.log.put(`k${String(index)}`, 'x', 0);
    const followers = [new Follower(), new Follower(), new Follower()];
    const [first, second, third] = followers;
    feed.next(first!.cursor);
    feed.build();
    for (const follower of [first!, second!]) drain(feed, follower);
    clock.ms = 1000;
    for (let index = 0; index < 500; index += 1) feed.log.put(`k${String(index)}`, 'y', 0);
    feed.flush();
    drain(feed, third!);
    expect(feed.counts).toEqual({ built: 1, sent: 3 });
    clock.ms = 3001;
    drain(feed, new Follower());
    expect(feed.counts).toEqual({ built: 2, sent: 4 });
    // Unless little has changed.
    clock.ms = 60_000;
    drain(feed, new Follower());
    expect(feed.counts).toEqual({ built: 2, sent: 5 });
  });

  it('sends a slow follower the last state of what it has missed, not each change', () => {
    const feed = feedOf();
    const slow = new Follower();
    const quick = new Follower();
    drain(feed, slow);
    drain(feed, quick);
    for (let change = 0; change < 500; change += 1) {
      feed.log.put(`k${String(change % 3)}`, String(change), 0);
      feed.flush();
      drain(feed, quick);
    }
    drain(feed, slow);
    expect(slow.live).toEqual(quick.live);
    expect(quick.received).toBe(500);
    expect(slow.received).toBe(3);
  });

  it('sends another snapshot when more was deleted at once than the log remembers', () => {
    const feed = feedOf(2);
    for (let index = 0; index < 10; index += 1) feed.log.put(`k${String(index)}`, 'x', 0);
    const follower = new Follower();
    drain(feed, follower);
    feed.flush();
    drain(feed, follower);
    for (let index = 1; index < 10; index += 1) feed.log.delete(`k${String(index)}`, 0);
    feed.flush();
    drain(feed, follower);
    expect([...(follower.live?.keys() ?? [])]).toEqual(['k0']);
    expect(feed.counts.sent).toBe(2);
  });

  it('encodes a change once for all followers, and again only for those that are far behind', () => {
    const feed = feedOf();
    const [one, other] = [new TopicCursor<Sent>(), new TopicCursor<Sent>()];
    for (const cursor of [one, other]) while (feed.next(cursor) !== undefined || feed.isBuilding) feed.build();
    feed.log.put('k', 'x', 0);
    feed.flush();
    expect(feed.next(one)).toBe(feed.next(other));
    expect(feed.next(one)).toBeUndefined();
  });

  it('sends no mark before everything that there was when the follower began', () => {
    const feed = feedOf();
    feed.log.put('old', 'x', 0);
    drain(feed, new Follower());
    // The snapshot of the one before is reused, and lacks it.
    feed.log.put('new', 'x', 0);
    for (let index = 0; index < 20; index += 1) feed.log.put(`k${String(index)}`, 'x', 0);
    const follower = new Follower();
    drain(feed, follower);
    expect(follower.live).toBeUndefined();
    feed.flush();
    drain(feed, follower);
    expect(follower.live?.has('new')).toBe(true);
    expect(feed.counts.built).toBe(1);
  });
});

describe('a log of a topic', () => {
  it('takes no change for a text that is the same', () => {
    const log = new TopicLog();
    expect(log.put('k', 'x', 0)).toBe(true);
    expect(log.put('k', 'x', 0)).toBe(false);
    expect(log.delete('other', 0)).toBe(false);
    expect(log.head).toBe(1);
    expect(log.bytes).toBe(1);
  });

  it('takes a list for what differs from its records', () => {
    const log = new TopicLog();
    for (const name of ['a', 'b', 'c']) log.put(name, 'x', 0);
    const listed = new Relist(log);
    listed.put('a', 'x', 0);
    listed.put('b', 'y', 0);
    listed.end(0);
    const { entries } = log.read(3, { records: Infinity, bytes: Infinity });
    expect(entries.map(({ key: name, text: value }) => [name, value])).toEqual([
      ['b', 'y'],
      ['c', undefined],
    ]);
  });

  it('forgets deletions that are old or many, and says up to which position', () => {
    const log = new TopicLog({ mostDeletions: 2, longestMs: 1000 });
    for (const name of ['a', 'b', 'c', 'd']) log.put(name, 'x', 0);
    for (const name of ['a', 'b']) log.delete(name, 0);
    expect(log.floor).toBe(0);
    log.delete('c', 10);
    expect(log.floor).toBe(5);
    log.delete('d', 1005);
    expect(log.floor).toBe(6);
    log.put('e', 'x', 5000);
    log.delete('e', 5000);
    expect(log.floor).toBe(8);
    expect(log.size).toBe(0);
  });

  it('stays as large as its records while they change again and again', () => {
    const log = new TopicLog();
    for (let change = 0; change < 100_000; change += 1) log.put(`k${String(change % 10)}`, String(change), 0);
    const { entries, position } = log.read(0, { records: Infinity, bytes: Infinity });
    expect(entries.map(({ text }) => text)).toEqual(Array.from({ length: 10 }, (_, k) => String(99_990 + k)));
    expect(position).toBe(100_000);
  });
});
