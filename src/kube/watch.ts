import * as v from 'valibot';
import { type ApiObject, readObject } from './objects.ts';
import type { ApiRequest, Requester } from './requester.ts';
import type { StreamEnd } from './watch-pace.ts';

export type WatchEvent =
  /** All objects; replaces the cache. */
  | { readonly kind: 'all'; readonly objects: readonly ApiObject[]; readonly version: string }
  /** Created or modified. */
  | { readonly kind: 'changed'; readonly object: ApiObject; readonly version: string }
  | { readonly kind: 'deleted'; readonly object: ApiObject; readonly version: string }
  /** Nothing changed up to this version. */
  | { readonly kind: 'bookmark'; readonly version: string };

/** The state of a watch: its stream was opened, received data (with or without a change), or broke. */
export type StreamState = 'opened' | 'received' | 'broken';

const event = v.looseObject({ type: v.string(), object: v.unknown() });

/** A stream that ends so long before its time was ended by a server that shuts down. */
const EARLY_MS = 5000;
/** An API that takes longer to open a stream may have been replaced meanwhile. */
const SLOW_MS = 1000;

/**
 * Yields changes after a version and reconnects as needed; returns when the version has expired (410), or when the API
 * server that takes over has not reached it, as after a restored backup: it would leave out changes until then.
 */
export async function* followChanges(
  requester: Requester,
  {
    version: from,
    path,
    isListed,
    onStream,
    isBehind,
    ...call
  }: ApiRequest & {
    readonly version: string;
    /** Whether the version is that of a list that has just been read. */
    readonly isListed: boolean;
    readonly onStream: (state: StreamState) => void;
    /** Reports whether the API has an older version, by a read that began after the given time. Never rejects. */
    readonly isBehind: (version: string, sinceMs: number, signal: AbortSignal) => Promise<boolean>;
  },
  signal: AbortSignal,
): AsyncGenerator<WatchEvent> {
  let version = from;
  /** When the version may have been lost, on the monotonic clock; undefined when it cannot have been. */
  let lostMs = isListed ? undefined : requester.monotonicMs();
  while (!signal.aborted) {
    const beganMs = requester.monotonicMs();
    const timeoutS = requester.watchTimeoutS();
    const dueMs = beganMs + timeoutS * 1000 - EARLY_MS;
    const query = new URLSearchParams({ watch: '1', allowWatchBookmarks: 'true', timeoutSeconds: String(timeoutS) });
    const url = `${path}${path.endsWith('?') ? '' : '&'}${query.toString()}&resourceVersion=${encodeURIComponent(version)}`;
    const answer = await requester.open({ ...call, path: url }, signal);
    if (answer.outcome !== 'ok') return;
    const openedMs = requester.monotonicMs();
    if (openedMs - beganMs >= SLOW_MS) lostMs = openedMs;
    let hasLost = false;
    const compare = async (sinceMs: number): Promise<void> => {
      hasLost = await isBehind(version, sinceMs, signal);
      if (hasLost) answer.value.destroy();
    };
    if (lostMs !== undefined) void compare(lostMs);
    onStream('opened');
    let end: StreamEnd = 'ended';
    try {
      for await (const line of linesOf(answer.value)) {
        const { type, object } = readEvent(line);
        // 410, or an error of a newer API: relist.
        if (object === undefined) return;
        version = object.metadata.resourceVersion ?? version;
        onStream('received');
        requester.recordActivity();
        if (type === 'ADDED' || type === 'MODIFIED') yield { kind: 'changed', object, version };
        if (type === 'DELETED') yield { kind: 'deleted', object, version };
        if (type === 'BOOKMARK') yield { kind: 'bookmark', version };
      }
    } catch (cause) {
      // A connection that breaks ends the stream, not the watch: the next one goes on from the same version.
      if (signal.aborted || !(cause instanceof Error)) return;
      end = 'broken';
    } finally {
      onStream('broken');
      answer.value.destroy();
    }
    if (signal.aborted || hasLost) return;
    const endedMs = requester.monotonicMs();
    lostMs = end === 'broken' || endedMs < dueMs ? endedMs : undefined;
    await requester.rest(end, { signal });
  }
}

async function* linesOf(stream: AsyncIterable<Buffer | string>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of stream) {
    const text = typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true });
    rest += text;
    // An object of a megabyte comes in a hundred chunks, and looking through all of them for each costs half of its time.
    if (!text.includes('\n')) continue;
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}

function readEvent(line: string): { readonly type: string; readonly object: ApiObject | undefined } {
  try {
    const read = v.safeParse(event, JSON.parse(line));
    if (!read.success || read.output.type === 'ERROR') return { type: 'ERROR', object: undefined };
    const { type, object } = read.output;
    return { type, object: type === 'BOOKMARK' ? readBookmark(object) : readObject(object) };
  } catch (cause) {
    // A line that was cut off.
    if (cause instanceof SyntaxError) return { type: 'ERROR', object: undefined };
    throw cause;
  }
}

const bookmark = v.looseObject({ metadata: v.looseObject({ resourceVersion: v.string() }) });

/** Returns the version of a bookmark. */
function readBookmark(raw: unknown): ApiObject | undefined {
  const read = v.safeParse(bookmark, raw);
  return read.success ? { metadata: { name: '', resourceVersion: read.output.metadata.resourceVersion } } : undefined;
}
