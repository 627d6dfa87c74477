import { expect, it } from 'vitest';
import { followedPool } from '../../../test/support/follow-source.ts';
import { virtualClock } from '../../base/clock.ts';
import { StreamFrameReader } from '../../stream/stream-frames.ts';
import { followFrame, type FollowPart, partFrame } from './follow-frames.ts';
import { FollowLink, type HeldTopics } from './follow-link.ts';
import { recordText } from './record-text.ts';

const topic = 'resources/IPPool';

const part = (position: number, more: Partial<FollowPart>): Buffer => {
  const key = `k${String(position)}`;
  const lines = [{ key, text: recordText(topic, followedPool(key)) }];
  return partFrame({ topic, isFirst: false, position, changed: position, lines, ...more });
};

/** A connection that has begun the topic, and what it receives. */
function linked(): { link: FollowLink; held: HeldTopics; receive: (...sent: Buffer[]) => void } {
  const held: HeldTopics = { copies: new Map(), seen: new Map() };
  const nothing = (): void => undefined;
  const events = {
    onChanges: nothing,
    onProgress: nothing,
    onServers: nothing,
    onLeave: nothing,
    onBeat: nothing,
  };
  const link = new FollowLink('s0', { held, clock: virtualClock(), events });
  const peer = { receivedMs: 0, isFull: false, send: nothing, together: nothing, accept: nothing, end: nothing };
  link.open(peer, [topic], []);
  const receive = (...sent: Buffer[]): void => {
    for (const bytes of sent) for (const frame of new StreamFrameReader(10_000).push(bytes)) link.receive(frame);
  };
  return { link, held, receive };
}

it('ignores what was on its way when a topic was ended and begun again', () => {
  const { link, held, receive } = linked();
  receive(part(1, { isFirst: true }), followFrame({ kind: 'complete', topic }));
  link.adopt();
  // The last follower of the topic has ended, and another one begins.
  link.end(topic);
  held.copies.delete(topic);
  link.begin(topic);
  receive(part(2, {}), followFrame({ kind: 'complete', topic }), part(3, {}));
  expect(held.copies.size).toBe(0);
  receive(part(4, { isFirst: true }), followFrame({ kind: 'complete', topic }), part(5, {}));
  expect([...(held.copies.get(topic)?.keys() ?? [])]).toEqual(['k4', 'k5']);
});

it('takes a later version from a beat only when it has everything of the position', () => {
  const { link, receive } = linked();
  const beat = (position: number, through: number): Buffer =>
    followFrame({ kind: 'beat', topics: { [topic]: { position, changed: undefined, through, ageMs: 0 } } });
  receive(part(4, { isFirst: true }), beat(4, 9));
  // Until the mark, nothing of the snapshot is held.
  expect(link.throughOf(topic)).toBeUndefined();
  receive(followFrame({ kind: 'complete', topic }), beat(4, 10));
  expect(link.throughOf(topic)).toBe(10);
  receive(beat(5, 12));
  expect(link.throughOf(topic)).toBe(10);
  receive(part(5, { changed: 11 }), beat(5, 12));
  expect(link.throughOf(topic)).toBe(12);
  // A further snapshot, as for a client that is behind forgotten deletions.
  receive(part(6, { isFirst: true, changed: 13 }));
  expect(link.throughOf(topic)).toBeUndefined();
  receive(followFrame({ kind: 'complete', topic }));
  expect(link.throughOf(topic)).toBe(13);
});
