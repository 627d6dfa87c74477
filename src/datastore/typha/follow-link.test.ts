import { expect, it } from 'vitest';
import { followedPool } from '../../../test/support/follow-source.ts';
import { virtualClock } from '../../base/clock.ts';
import { StreamFrameReader } from '../../stream/stream-frames.ts';
import { completeFrame, type FollowPart, partFrame } from './follow-frames.ts';
import { FollowLink, type HeldTopics } from './follow-link.ts';
import { recordText } from './record-text.ts';

const topic = 'resources/IPPool';

it('ignores what was on its way when a topic was ended and begun again', () => {
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
  const receive = (bytes: Buffer): void => {
    for (const frame of new StreamFrameReader(10_000).push(bytes)) link.receive(frame);
  };
  const part = (position: number, more: Partial<FollowPart>): Buffer => {
    const lines = [{ key: `k${String(position)}`, text: recordText(followedPool(`k${String(position)}`)) }];
    return partFrame({ topic, isFirst: false, position, changed: position, lines, ...more });
  };
  const peer = { receivedMs: 0, isFull: false, send: nothing, together: nothing, accept: nothing, end: nothing };
  link.open(peer, [topic], []);
  for (const bytes of [part(1, { isFirst: true }), completeFrame(topic)]) receive(bytes);
  link.adopt();
  // The last follower of the topic has ended, and another one begins.
  link.end(topic);
  held.copies.delete(topic);
  link.begin(topic);
  for (const bytes of [part(2, {}), completeFrame(topic), part(3, {})]) receive(bytes);
  expect(held.copies.size).toBe(0);
  for (const bytes of [part(4, { isFirst: true }), completeFrame(topic), part(5, {})]) receive(bytes);
  expect([...(held.copies.get(topic)?.keys() ?? [])]).toEqual(['k4', 'k5']);
});
