import { setTimeout } from 'node:timers/promises';
import { systemClock, untilBeat } from '../../base/clock.ts';
import { mergeStreams } from '../../base/merge-streams.ts';
import { IPAM_CONFIGURATION_NAME } from '../../model/ipam-configuration.ts';
import { tryParseJson } from '../../base/try-parse-json.ts';
import { isBusy } from '../../kube/answers.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import type { FollowedRecord, FollowEvent, Query } from '../follow.ts';
import { type SourceOptions, sourcesOf } from './query-sources.ts';
import { collectionOf } from './resource-objects.ts';
import { Forgotten, type SourceEvent, type SourceFollowing } from './source.ts';

const PROBE_CHECK_MS = 5000;
const PROBE_MS = 4000;

export interface FollowParts extends SourceOptions {
  readonly api: OrchApi;
  /** The API is asked whether it serves when nothing has come from it for that long; `Infinity` for never. */
  readonly probeAfterMs: number;
}

interface Followed extends SourceFollowing {
  readonly queries: readonly Query[];
}

/**
 * One list and one watch per source, shared with other streams. Each watch resumes by itself after a short interruption.
 * When the API server no longer has its version, it lists again and reports the differences.
 */
export async function* follow(
  parts: FollowParts,
  { queries, from, isFresh }: Followed & { readonly from: string | undefined },
  signal: AbortSignal,
): AsyncGenerator<FollowEvent> {
  if (from !== undefined) {
    try {
      yield* followFrom(parts, { queries, isFresh, from: parsePositions(from) }, signal);
      return;
    } catch (cause) {
      if (!(cause instanceof Forgotten)) throw cause;
    }
  }
  yield* followFrom(parts, { queries, isFresh, from: undefined }, signal);
}

async function* followFrom(
  { api, probeAfterMs, ...options }: FollowParts,
  { queries, from, isFresh }: Followed & { readonly from: readonly string[] | undefined },
  signal: AbortSignal,
): AsyncGenerator<FollowEvent> {
  const sources = queries.flatMap((query, index) => sourcesOf(query, index, options));
  const begin = (either: AbortSignal): AsyncIterable<SourceEvent>[] => {
    const streams = sources.map(({ follow: list, resume }, index) => {
      if (from === undefined) return list(api, { isFresh }, either);
      const version = from[index];
      if (version === undefined || resume === undefined) throw new Forgotten('not every query can be resumed');
      return resume(api, version, either);
    });
    return probeAfterMs === Infinity ? streams : [...streams, probeWhileSilent(api, probeAfterMs, either)];
  };
  const positions = sources.map((_, index) => from?.[index] ?? '');
  /** Positions of the lists, without what has changed since. */
  const listed = [...positions];
  const missing = new Set(from === undefined ? sources.keys() : []);
  const records: FollowedRecord[] = [];
  /** Changes of what is listed before everything is. */
  const early: FollowedRecord[] = [];
  for await (const { index, item: event } of mergeStreams(begin, signal)) {
    positions[index] = event.version;
    if (missing.size === 0) yield changesOf(event.records, JSON.stringify(positions));
    else {
      const found = event.kind === 'all' ? records : early;
      for (const record of event.records) found.push(record);
      if (event.kind === 'all') {
        listed[index] = event.version;
        missing.delete(index);
      }
      if (missing.size > 0) continue;
      // What other followers have cached does not show that the API serves.
      if (probeAfterMs !== Infinity && api.silentMs() >= probeAfterMs) await probe(api, signal);
      yield { kind: 'snapshot', records: records.splice(0), version: JSON.stringify(listed) };
      if (early.length > 0) yield changesOf(early.splice(0), JSON.stringify(positions));
    }
  }
}

function changesOf(records: readonly FollowedRecord[], version: string): FollowEvent {
  return records.length === 0 ? { kind: 'bookmark', version } : { kind: 'changes', records, version };
}

/** Returns the version of the API up to which an event of one source has everything; undefined when it does not say. */
export function apiVersionOf(version: string): number | undefined {
  const [first, ...more] = parsePositions(version);
  const number = Number(first);
  return first === undefined || first === '' || more.length > 0 || !Number.isFinite(number) ? undefined : number;
}

function parsePositions(from: string): readonly string[] {
  const read = tryParseJson(from);
  return Array.isArray(read) ? read.map(String) : [];
}

/** Asks the API whether it serves. Throws unless it does, or is busy. */
async function probe(api: OrchApi, signal: AbortSignal): Promise<void> {
  try {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]);
    await api.probe(collectionOf('IPAMConfiguration'), IPAM_CONFIGURATION_NAME, limit);
  } catch (cause) {
    // Watches of an API that is busy go on; restarting them would only give it more to do.
    if (!isBusy(cause)) throw cause;
  }
}

/**
 * Asks the API whether it serves when its watches have been silent, as they may be for a minute while all is well. Yields nothing;
 * throws when the API does not serve.
 */
// oxlint-disable-next-line require-yield -- It only throws.
async function* probeWhileSilent(api: OrchApi, afterMs: number, signal: AbortSignal): AsyncGenerator<never> {
  for (;;) {
    await setTimeout(untilBeat(PROBE_CHECK_MS, systemClock), undefined, { signal, ref: false });
    if (api.silentMs() >= afterMs) await probe(api, signal);
  }
}
