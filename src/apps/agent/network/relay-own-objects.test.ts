import { expect, it } from 'vitest';
import { Channel } from '../../../base/channel.ts';
import { systemClock } from '../../../base/clock.ts';
import { systemRandom } from '../../../base/random.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { OrchApi, SharedWatchOptions } from '../../../kube/orch-api.ts';
import type { SharedEvent } from '../../../kube/shared-watches.ts';
import { WatchRelay } from '../../../kube/watch-relay.ts';
import { nodeName } from '../../../../test/support/fixtures.ts';
import { PODS, RUN_PODS } from '../../../kube/paths.ts';
import { relayOwnObjects } from './relay-own-objects.ts';
import { PATIENCE_MS } from '../../../../test/support/until.ts';

function pod(name: string, node: string, resourceVersion: string): ApiObject {
  return { metadata: { name, namespace: 'shop', resourceVersion }, spec: { nodeName: node } };
}

/** The watch of all pods, which the test feeds, and a relay in another process. */
function relayed(): {
  relay: WatchRelay;
  feeds: Channel<SharedEvent>[];
  note: NonNullable<SharedWatchOptions['onStream']>;
  pods: () => string[] | undefined;
  stop: AbortController;
} {
  const relay = new WatchRelay(systemClock);
  const feeds: Channel<SharedEvent>[] = [];
  const stop = new AbortController();
  stop.signal.addEventListener('abort', () => relay[Symbol.dispose]());
  let note: NonNullable<SharedWatchOptions['onStream']> = () => undefined;
  const sharedWatch: OrchApi['sharedWatch'] = (_collection, { onStream }, signal) => {
    const feed = new Channel<SharedEvent>();
    signal.addEventListener('abort', () => feed.close());
    feeds.push(feed);
    note = (state) => onStream?.(state);
    return feed[Symbol.asyncIterator]();
  };
  const send = (event: Parameters<WatchRelay['receive']>[0]): void => relay.receive(structuredClone(event));
  const ports = { api: { sharedWatch }, send, clock: systemClock, random: systemRandom };
  const kind = { collection: PODS, options: RUN_PODS, nodeField: 'nodeName' };
  void relayOwnObjects(ports, { ...kind, node: nodeName('a') }, stop.signal);
  return {
    relay,
    feeds,
    note: (state) => note(state),
    pods: () => relay.current?.objects.map(({ metadata }) => `${metadata.name} ${metadata.resourceVersion ?? ''}`),
    stop,
  };
}

it('sends pods of the node alone, and the version of all of them', async () => {
  const { feeds, note, pods, relay, stop } = relayed();
  note('opened');
  feeds[0]?.push({ kind: 'all', objects: [pod('own', 'a', '3'), pod('other', 'b', '4')], version: '5' });
  await expect.poll(pods, { timeout: PATIENCE_MS }).toEqual(['own 3']);
  const changes = [
    { before: undefined, after: pod('next', 'a', '6') },
    { before: undefined, after: pod('unscheduled', '', '6') },
  ];
  feeds[0]?.push({ kind: 'changes', changes, version: '6' });
  await expect.poll(pods, { timeout: PATIENCE_MS }).toEqual(['own 3', 'next 6']);
  feeds[0]?.push({ kind: 'changes', changes: [{ before: pod('own', 'a', '3'), after: undefined }], version: '7' });
  await expect.poll(pods, { timeout: PATIENCE_MS }).toEqual(['next 6']);
  feeds[0]?.push({
    kind: 'changes',
    changes: [{ before: undefined, after: pod('other', 'b', '8') }],
    version: '8',
  });
  // With the next beat.
  await expect.poll(() => relay.current?.version, { timeout: PATIENCE_MS }).toBe('8');
  stop.abort();
});

it('removes a pod whose successor of the same name runs on another node', async () => {
  const { feeds, note, pods, stop } = relayed();
  note('opened');
  feeds[0]?.push({ kind: 'all', objects: [pod('db-0', 'a', '3')], version: '5' });
  await expect.poll(pods, { timeout: PATIENCE_MS }).toEqual(['db-0 3']);
  const moved = { before: pod('db-0', 'a', '3'), after: pod('db-0', 'b', '9') };
  feeds[0]?.push({ kind: 'changes', changes: [moved], version: '9' });
  await expect.poll(pods, { timeout: PATIENCE_MS }).toEqual([]);
  const back = { before: pod('db-0', 'b', '9'), after: pod('db-0', 'a', '12') };
  feeds[0]?.push({ kind: 'changes', changes: [back], version: '12' });
  await expect.poll(pods, { timeout: PATIENCE_MS }).toEqual(['db-0 12']);
  stop.abort();
});

it('is not current while the watch is broken, and lists again after the watch has failed', async () => {
  const { feeds, note, pods, stop } = relayed();
  note('opened');
  feeds[0]?.push({ kind: 'all', objects: [pod('own', 'a', '3')], version: '5' });
  await expect.poll(pods, { timeout: PATIENCE_MS }).toEqual(['own 3']);
  note('broken');
  expect(pods()).toBeUndefined();
  feeds[0]?.fail(new Error('lost'));
  await expect.poll(() => feeds.length, { timeout: PATIENCE_MS }).toBe(2);
  feeds[1]?.push({ kind: 'all', objects: [pod('own', 'a', '9')], version: '9' });
  note('opened');
  await expect.poll(pods, { timeout: PATIENCE_MS }).toEqual(['own 9']);
  stop.abort();
});
