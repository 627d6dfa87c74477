import { isNetplugError, type NetplugError, toNetplugError } from '../../../base/errors.ts';
import type { DatastoreReport } from '../../../datastore/inspector.ts';
import type { Datastore } from '../../../config/connection.ts';
import { isStoreTrouble, type Sources } from './sources.ts';

export interface DatastoreFacts {
  readonly type: Datastore['type'] | undefined;
  /** What said how to reach it. */
  readonly from: string | undefined;
  /** Why it cannot be used; undefined when it can. */
  readonly trouble: NetplugError | undefined;
  /** Of one cheap read, the quickest of a few. */
  readonly latencyMs: number | undefined;
  /** Undefined when it could not be had; `silence` says why. */
  readonly report: DatastoreReport | undefined;
  readonly silence: string | undefined;
  /** How far this clock is ahead of the datastore's, at least. */
  readonly skewMs: number | undefined;
  readonly unreadable: readonly string[];
  /** Why the records cannot be listed although the datastore answers; undefined when they can. */
  readonly unlisted: string | undefined;
}

const PINGS = 3;
const UNKNOWN = {
  latencyMs: undefined,
  report: undefined,
  silence: undefined,
  skewMs: undefined,
  unreadable: [],
  unlisted: undefined,
} as const;

export async function gatherDatastore(sources: Sources, signal: AbortSignal): Promise<DatastoreFacts> {
  const { clock, openInspector } = sources.context.ports;
  let known: Pick<DatastoreFacts, 'type' | 'from'> = { type: undefined, from: undefined };
  try {
    const { datastore, from } = await sources.connection();
    known = { type: datastore.type, from };
    const store = await sources.store();
    // The first makes the connection.
    await store.ping(signal);
    const times: number[] = [];
    for (let ping = 0; ping < PINGS; ping += 1) {
      const startMs = clock.monotonic();
      await store.ping(signal);
      times.push(clock.monotonic() - startMs);
    }
    await using inspector = openInspector(datastore);
    const inspected = await inspector.inspect(signal).catch(toNetplugError);
    const report = isNetplugError(inspected) ? undefined : inspected;
    // The plugin on a node, whose account this may be, may not list all of them.
    const records = await sources.records().catch(refusal);
    return {
      ...known,
      trouble: undefined,
      latencyMs: Math.min(...times),
      report,
      silence: isNetplugError(inspected) ? inspected.message : undefined,
      skewMs: report?.skewMs,
      unreadable: isNetplugError(records) ? [] : records.unreadable,
      unlisted: isNetplugError(records) ? records.message : undefined,
    };
  } catch (cause) {
    if (!isStoreTrouble(cause)) throw cause;
    return { ...known, ...UNKNOWN, trouble: toNetplugError(cause) };
  }
}

/** The error of a refusal; others are thrown on. */
function refusal(cause: unknown): NetplugError {
  if (isNetplugError(cause, 'store/refused')) return cause;
  throw cause;
}
