import { Channel } from '../../base/channel.ts';
import { repeat } from '../../base/clock.ts';
import { IPAM_CONFIGURATION_NAME } from '../../model/ipam-configuration.ts';
import { tryParseJson } from '../../base/try-parse-json.ts';
import { isBusy } from '../../kube/answers.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import type { WatchEvent } from '../../kube/watch.ts';
import type { FollowEvent, Query } from '../follow.ts';
import { FollowedObjects } from './followed-objects.ts';
import { sourcesOf } from './query-sources.ts';
import { collectionOf } from './resource-objects.ts';

/** A watch is silent for minutes while all is well: whether the API still serves is asked beside it. */
const PROBE_EVERY_MS = 9000;
const PROBE_MS = 4000;

/** The API server no longer has the version to resume from. */
class Forgotten extends Error {
  override readonly name = 'Forgotten';
}

/**
 * One list and one watch per source. Each watch resumes by itself after an interruption shorter than the time between two
 * probes. When the API server no longer has its version, it lists again and reports the differences.
 */
export async function* follow(
  api: OrchApi,
  { queries, from }: { readonly queries: readonly Query[]; readonly from: string | undefined },
  signal: AbortSignal,
): AsyncGenerator<FollowEvent> {
  if (from !== undefined) {
    try {
      yield* followFrom(api, { queries, from: parsePositions(from) }, signal);
      return;
    } catch (cause) {
      if (!(cause instanceof Forgotten)) throw cause;
    }
  }
  yield* followFrom(api, { queries, from: undefined }, signal);
}

async function* followFrom(
  api: OrchApi,
  { queries, from }: { readonly queries: readonly Query[]; readonly from: readonly string[] | undefined },
  signal: AbortSignal,
): AsyncGenerator<FollowEvent> {
  const followed = queries.flatMap(sourcesOf).map((source) => new FollowedObjects(source));
  if (from !== undefined && !followed.every(({ source }, index) => source.canResume && from[index] !== undefined)) {
    throw new Forgotten('not every query can be resumed');
  }
  const positions = followed.map((_, index) => from?.[index] ?? '');
  let isComplete = from !== undefined;
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  const events = new Channel<{ readonly index: number; readonly event: WatchEvent }>();
  either.addEventListener('abort', () => events.close(), { once: true });
  const pumps = followed.map(async ({ source: { collection, options } }, index) => {
    const version = from?.[index];
    try {
      const resumed = { ...options, ...(version === undefined ? {} : { from: version }) };
      for await (const event of api.watch(collection, resumed, either)) events.push({ index, event });
    } catch (cause) {
      events.fail(cause);
    }
  });
  repeat(
    () => {
      probe(api, either).catch((cause: unknown) => {
        // Watches of an API that is busy go on; restarting them would only give it more to do.
        if (!isBusy(cause)) events.fail(cause);
      });
    },
    PROBE_EVERY_MS,
    either,
  );
  try {
    for await (const { index, event } of events) {
      const objects = followed[index];
      if (objects === undefined) continue;
      if (event.kind === 'all' && from !== undefined && !objects.isListed) throw new Forgotten('it is listed anew');
      const changes = objects.apply(event);
      positions[index] = event.version;
      const version = JSON.stringify(positions);
      if (isComplete)
        yield changes.length === 0 ? { kind: 'bookmark', version } : { kind: 'changes', records: changes, version };
      else if (followed.every(({ isListed }) => isListed)) {
        isComplete = true;
        yield { kind: 'snapshot', records: followed.flatMap((objects) => [...objects.records()]), version };
      }
    }
  } finally {
    over.abort();
    await Promise.all(pumps);
  }
}

function parsePositions(from: string): readonly string[] {
  const read = tryParseJson(from);
  return Array.isArray(read) ? read.map(String) : [];
}

async function probe(api: OrchApi, signal: AbortSignal): Promise<void> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]);
  await api.probe(collectionOf('IPAMConfiguration'), IPAM_CONFIGURATION_NAME, limit);
}
