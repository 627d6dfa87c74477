import { Channel } from '../../base/channel.ts';
import { repeat } from '../../base/clock.ts';
import { inPieces } from '../../base/pieces.ts';
import { IPAM_CONFIGURATION_NAME } from '../../model/ipam-configuration.ts';
import { isBusy } from '../../kube/answers.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import type { WatchEvent } from '../../kube/watch.ts';
import { FollowedObjects, type Source } from './followed-objects.ts';
import { collectionOf } from './resource-objects.ts';

/** A watch is silent for minutes while all is well: whether the API still serves is asked beside it. */
const PROBE_EVERY_MS = 9000;
const PROBE_MS = 4000;

/**
 * One watch for each source, told as one: `all` once each of them knows everything, then what changes. Each goes on by
 * itself after an interruption that is shorter than the time between two probes.
 */
export async function* followSources<C>(
  api: OrchApi,
  { sources, all }: { readonly sources: readonly Source<C>[]; readonly all: () => C | Promise<C> },
  signal: AbortSignal,
): AsyncGenerator<C> {
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  const events = new Channel<{ readonly from: FollowedObjects<C>; readonly event: WatchEvent }>();
  either.addEventListener('abort', () => events.close(), { once: true });
  const followed = sources.map((source) => new FollowedObjects(source));
  const pumps = followed.map(async (from) => {
    const { collection, options } = from.source;
    try {
      for await (const event of api.watch(collection, options, either)) events.push({ from, event });
    } catch (cause) {
      events.fail(cause);
    }
  });
  repeat(
    () => {
      probe(api, either).catch((cause: unknown) => {
        // Watches of an API that is busy go on; beginning them anew would only give it more to do.
        if (!isBusy(cause)) events.fail(cause);
      });
    },
    PROBE_EVERY_MS,
    either,
  );
  try {
    let isFirst = true;
    for await (const { from, event } of events) {
      const changes = await inPieces(from.apply(event));
      if (!isFirst) yield* changes;
      else if (followed.every(({ isComplete }) => isComplete)) {
        isFirst = false;
        yield await all();
      }
    }
  } finally {
    over.abort();
    await Promise.all(pumps);
  }
}

async function probe(api: OrchApi, signal: AbortSignal): Promise<void> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]);
  await api.probe(collectionOf('IPAMConfiguration'), IPAM_CONFIGURATION_NAME, limit);
}
