import { inTurn, slicesByWeight } from '../../base/slices.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { ListOptions, OrchApi } from '../../kube/orch-api.ts';
import { isPacked, wholeObject } from '../../kube/packed-object.ts';
import type { Collection } from '../../kube/paths.ts';
import type { ObjectChange } from '../../kube/shared-watches.ts';
import { deletedRecord, type FollowedRecord } from '../follow.ts';

/** Number of objects that are read in one turn of the event loop; a large one has a turn of its own. */
const SLICE = 200;

export interface SourceEvent {
  /** `all` is always the first, and comes once, unless the source resumes. */
  readonly kind: 'all' | 'changes';
  readonly records: readonly FollowedRecord[];
  readonly version: string;
}

export interface SourceFollowing {
  /** Whether no record may be older than the call. */
  readonly isFresh: boolean;
}

/** Records of one kind of object. */
export interface Source {
  /** The objects, where each of them has its records alone. */
  readonly watched: Watched | undefined;
  readonly follow: (api: OrchApi, options: SourceFollowing, signal: AbortSignal) => AsyncIterable<SourceEvent>;
  /** Yields changes after the version; undefined where a version does not tell what was removed. */
  readonly resume: ((api: OrchApi, from: string, signal: AbortSignal) => AsyncIterable<SourceEvent>) | undefined;
}

/** The API server no longer has the version to resume from. */
export class Forgotten extends Error {
  override readonly name = 'Forgotten';
}

/** Objects that are watched, and the records in one of them. */
export interface Watched {
  readonly collection: Collection;
  readonly options: ListOptions;
  readonly recordsIn: (object: ApiObject) => readonly FollowedRecord[];
  /** Reports whether both have the same records, where that is known without reading them. */
  readonly isSame?: (before: ApiObject, after: ApiObject) => boolean;
}

/** Returns the source of records in watched objects. `canResume` tells whether a deleted object shows all of its records. */
export function watchedSource(watched: Watched, { canResume }: { readonly canResume: boolean }): Source {
  return {
    watched,
    follow: (api, options, signal) => followObjects(api, { ...watched, ...options }, signal),
    resume: canResume ? (api, from, signal) => resumeObjects(api, { watched, from }, signal) : undefined,
  };
}

async function* followObjects(
  api: OrchApi,
  watched: Watched & SourceFollowing,
  signal: AbortSignal,
): AsyncGenerator<SourceEvent> {
  const { collection, options, recordsIn, isFresh } = watched;
  for await (const event of api.sharedWatch(collection, { ...options, isFresh }, signal)) {
    const { version } = event;
    if (event.kind === 'all') yield { kind: 'all', records: await recordsOfAll(event.objects, recordsIn), version };
    else yield { kind: 'changes', records: event.changes.flatMap((change) => recordsAfter(watched, change)), version };
  }
}

/** Lets calls of the same process run between slices: 20 000 blocks take 0.2 s. */
async function recordsOfAll(
  objects: readonly ApiObject[],
  recordsIn: Watched['recordsIn'],
): Promise<readonly FollowedRecord[]> {
  const records: FollowedRecord[] = [];
  const weightOf = (object: ApiObject): number => (isPacked(object) ? SLICE : 1);
  for await (const slice of inTurn(slicesByWeight(objects, { most: SLICE, weightOf })))
    for (const object of slice) records.push(...recordsIn(wholeObject(object)));
  return records;
}

async function* resumeObjects(
  api: OrchApi,
  { watched, from }: { readonly watched: Watched; readonly from: string },
  signal: AbortSignal,
): AsyncGenerator<SourceEvent> {
  const { collection, options } = watched;
  for await (const event of api.watch(collection, { ...options, from }, signal)) {
    const { version } = event;
    if (event.kind === 'all') throw new Forgotten('the API server has listed the objects again');
    const changes: ObjectChange[] = [];
    if (event.kind === 'changed') changes.push({ before: undefined, after: event.object });
    if (event.kind === 'deleted') changes.push({ before: event.object, after: undefined });
    yield { kind: 'changes', records: changes.flatMap((change) => recordsAfter(watched, change)), version };
  }
}

function recordsAfter({ recordsIn, isSame }: Watched, { before, after }: ObjectChange): readonly FollowedRecord[] {
  if (before !== undefined && after !== undefined && isSame?.(before, after) === true) return [];
  const records = after === undefined ? [] : recordsIn(wholeObject(after));
  const keys = new Set(records.map(({ key }) => key));
  const removed = before === undefined ? [] : recordsIn(wholeObject(before)).filter(({ key }) => !keys.has(key));
  return [...removed.map(deletedRecord), ...records];
}
