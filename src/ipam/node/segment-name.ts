import { sha256Of } from '../../base/sha256.ts';
import type { DatastoreId } from './datastore-id.ts';
import type { JournalHeader } from './entry-codec.ts';

const ENDING = '.jsonl';
/** Appended to the name of a segment that is kept because parts of it cannot be read. */
const DAMAGED = '.damaged';

/** The parts of a segment's file name, which identify the owner without opening the file. */
export interface SegmentName {
  readonly datastoreKey: string;
  readonly run: string;
  readonly isDamaged: boolean;
}

/** `<datastore>.<run>.<number>.jsonl` */
export function segmentName({ datastore, run }: Pick<JournalHeader, 'datastore' | 'run'>, number: number): string {
  return `${datastoreKey(datastore)}.${run}.${String(number).padStart(6, '0')}${ENDING}`;
}

export function damagedName(segment: string): string {
  return `${segment}${DAMAGED}`;
}

/** Parses the file name of a segment; undefined for any other file. */
export function parseSegmentName(name: string): SegmentName | undefined {
  const isDamaged = name.endsWith(DAMAGED);
  const segment = isDamaged ? name.slice(0, -DAMAGED.length) : name;
  const match = /^([0-9a-f]{16})\.([^.]+)\.\d{6,}\.jsonl$/.exec(segment);
  return match?.[1] === undefined || match[2] === undefined
    ? undefined
    : { datastoreKey: match[1], run: match[2], isDamaged };
}

/** Returns the digest of the datastore id for file names. */
export function datastoreKey(datastore: DatastoreId): string {
  return sha256Of(datastore).slice(0, 16);
}
