import { isNetplugError, type NetplugError, toNetplugError } from '../../../base/errors.ts';
import type { DatastoreReport } from '../../../datastore/inspector.ts';
import type { Datastore } from '../../../config/connection.ts';
import { isStoreFailure, type Sources } from './sources.ts';

export interface DatastoreFacts {
  readonly type: Datastore['type'] | undefined;
  /** The file, flag or variable that configures the connection. */
  readonly from: string | undefined;
  /** Reason why the datastore is unusable; undefined when it works. */
  readonly failure: NetplugError | undefined;
  /** The shortest round trip of a few cheap reads. */
  readonly latencyMs: number | undefined;
  /** Undefined when the inspection failed; `inspectError` is the reason. */
  readonly report: DatastoreReport | undefined;
  readonly inspectError: string | undefined;
  /** Least time by which this clock is ahead of the clock of the datastore. */
  readonly skewMs: number | undefined;
  readonly unreadable: readonly string[];
  /** Reason why the records cannot be listed although the datastore answers; undefined when they can. */
  readonly listError: string | undefined;
}

const PINGS = 3;
const UNKNOWN = {
  latencyMs: undefined,
  report: undefined,
  inspectError: undefined,
  skewMs: undefined,
  unreadable: [],
  listError: undefined,
} as const;

export async function gatherDatastore(sources: Sources, signal: AbortSignal): Promise<DatastoreFacts> {
  const { clock, openInspector } = sources.context.ports;
  let known: Pick<DatastoreFacts, 'type' | 'from'> = { type: undefined, from: undefined };
  try {
    const { datastore, from } = await sources.connection();
    known = { type: datastore.type, from };
    const store = await sources.store();
    // The first ping opens the connection, and is not measured.
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
    // The account may be that of the plugin, which is not authorized to list all records.
    const records = await sources.records().catch(refusal);
    return {
      ...known,
      failure: undefined,
      latencyMs: Math.min(...times),
      report,
      inspectError: isNetplugError(inspected) ? inspected.message : undefined,
      skewMs: report?.skewMs,
      unreadable: isNetplugError(records) ? [] : records.unreadable,
      listError: isNetplugError(records) ? records.message : undefined,
    };
  } catch (cause) {
    if (!isStoreFailure(cause)) throw cause;
    return { ...known, ...UNKNOWN, failure: toNetplugError(cause) };
  }
}

/** Returns an error of authorization, and rethrows any other. */
function refusal(cause: unknown): NetplugError {
  if (isNetplugError(cause, 'store/refused')) return cause;
  throw cause;
}
