import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Channel } from '../../base/channel.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { OrchApi, type SharedWatchOptions } from '../../kube/orch-api.ts';
import type { Collection } from '../../kube/paths.ts';
import type { SharedEvent } from '../../kube/shared-watches.ts';
import type { FollowEvent } from '../follow.ts';
import { apiVersionOf, follow } from './follow.ts';
import { PATIENCE_MS } from '../../../test/support/until.ts';

/** An API whose watches the test feeds. */
class FedApi extends OrchApi {
  readonly feeds: Channel<SharedEvent>[] = [];

  override async *sharedWatch(_: Collection, __: SharedWatchOptions, signal: AbortSignal): AsyncGenerator<SharedEvent> {
    const feed = new Channel<SharedEvent>();
    signal.addEventListener('abort', () => feed.close(), { once: true });
    this.feeds.push(feed);
    yield* feed;
  }
}

const poolAt = (resourceVersion: string): ApiObject => ({ metadata: { name: 'a', resourceVersion } });

it('the version of a snapshot is before the changes that follow it', async () => {
  await using api = new FedApi({ from: 'in-cluster' });
  const stop = new AbortController();
  const queries = [
    { kind: 'resources', of: 'IPPool' },
    { kind: 'resources', of: 'BGPPeer' },
  ] as const;
  const options = { queries, isFresh: false, from: undefined };
  const stream = follow({ api, probeAfterMs: Infinity }, options, stop.signal);
  const first = stream.next();
  await expect.poll(() => api.feeds.length, { timeout: PATIENCE_MS }).toBe(2);
  const [pools, peers] = api.feeds;
  pools?.push({ kind: 'all', objects: [poolAt('4')], version: '5' });
  pools?.push({ kind: 'changes', changes: [{ before: poolAt('4'), after: poolAt('7') }], version: '7' });
  await setImmediate();
  peers?.push({ kind: 'all', objects: [], version: '6' });
  const versionsIn = (event: FollowEvent | undefined): unknown =>
    event === undefined || event.kind === 'bookmark'
      ? undefined
      : [event.kind, event.version, event.records.map(({ version }) => version)];
  expect(versionsIn((await first).value)).toEqual(['snapshot', '["5","6"]', ['4']]);
  expect(versionsIn((await stream.next()).value)).toEqual(['changes', '["7","6"]', ['7']]);
  stop.abort();
  await stream.return(undefined);
});

it('says which version of the API an event of one source has, and none for other events', () => {
  expect(apiVersionOf('["42"]')).toBe(42);
  for (const version of ['["42","43"]', '[""]', '["x"]', 'x', '']) expect(apiVersionOf(version)).toBeUndefined();
});
