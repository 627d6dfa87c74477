import { createHash } from 'node:crypto';
import type { Datastore } from '../netconf/connection.ts';
import type { JournalHeader } from './entry-codec.ts';

/** `<datastore>.<run>.<number>.jsonl`, so that whoever looks for journals of a datastore need not open the others. */
export function segmentName({ datastore, run }: JournalHeader, number: number): string {
  return `${datastoreKey(datastore)}.${run}.${String(number).padStart(6, '0')}.jsonl`;
}

/** Whether the file is a segment of the datastore, and of which run. */
export function runOfSegment(name: string, datastore: Datastore): string | undefined {
  const [key, run, number, ending, ...rest] = name.split('.');
  const isSegment = key === datastoreKey(datastore) && ending === 'jsonl' && rest.length === 0;
  return isSegment && number !== undefined && /^\d{6,}$/.test(number) ? run : undefined;
}

/** The same for configurations that reach the same records, whatever the order in which their fields were set. */
export function datastoreKey(datastore: Datastore): string {
  const reach = datastore.type === 'orch' ? { ...datastore.orch, nodeName: undefined } : datastore.connection;
  return createHash('sha256')
    .update(canonical({ type: datastore.type, reach }))
    .digest('hex')
    .slice(0, 16);
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const fields = Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${fields.map(([key, field]) => `${JSON.stringify(key)}:${canonical(field)}`).join(',')}}`;
}
