import { closeSync, constants, fstatSync, openSync, readFileSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { errnoOf } from '../../base/errors.ts';
import { isMissing } from '../../base/missing-file.ts';
import type { HeldAddress } from '../../model/ip-block.ts';
import { interfaceKey } from '../../model/names.ts';
import type { DatastoreId } from './datastore-id.ts';
import { type Entry, takenBy } from './entry.ts';
import { decodeSegment, type ReadSegment } from './entry-codec.ts';
import type { JournalPlace } from './journal.ts';
import { damagedName, datastoreKey, parseSegmentName, type SegmentName } from './segment-name.ts';

/** An orphaned journal, locked by this process until it is removed or unlocked. */
export interface OrphanedJournal {
  /** The node in the header; undefined when no header can be read. */
  readonly node: string | undefined;
  readonly entries: readonly Entry[];
  /** Segments with lines that cannot be read. */
  readonly damaged: readonly string[];
  /** Removes the segments, except the damaged ones with `keep`, which are renamed. */
  remove(damaged: 'keep' | 'remove'): void;
  /** Releases the lock and keeps the journal for the next process. */
  unlock(): void;
}

interface Segment extends SegmentName {
  readonly path: string;
}

/** Returns the runs with a journal of the datastore that can be replayed, whether their owner is alive or not. */
export function runsToRecover(folder: string, datastore: DatastoreId): ReadonlySet<string> {
  const key = datastoreKey(datastore);
  return new Set(
    listSegments(folder).flatMap(({ run, isDamaged, ...segment }) =>
      segment.datastoreKey === key && !isDamaged ? run : [],
    ),
  );
}

/** Returns the runs with any journal, of any datastore, including those with only damaged segments. */
export function runsWithJournal(folder: string): ReadonlySet<string> {
  return new Set(listSegments(folder).map(({ run }) => run));
}

/** Returns the paths of orphaned journals that belong to other datastores. */
export function journalsOfOtherDatastores(
  { folder, tryLock }: JournalPlace,
  datastore: DatastoreId,
): readonly string[] {
  const key = datastoreKey(datastore);
  return listSegments(folder).flatMap(({ path, isDamaged, ...segment }) => {
    if (segment.datastoreKey === key || isDamaged) return [];
    const fd = openIfThere(path);
    if (fd === undefined) return [];
    try {
      return tryLock(fd) ? path : [];
    } finally {
      closeSync(fd);
    }
  });
}

/** Returns the damaged segments that were kept. */
export function damagedSegments(folder: string): readonly { readonly path: string; readonly run: string }[] {
  return listSegments(folder).filter(({ isDamaged }) => isDamaged);
}

/** Returns the entries of one run whose owner is alive, or `newer` when a newer release wrote some of them. */
export function readJournal(folder: string, run: string): readonly Entry[] | 'newer' {
  const segments = segmentsOf(folder, run).map(({ path }) => readSegment(path));
  return segments.some(({ isNewer }) => isNewer) ? 'newer' : segments.flatMap(({ entries }) => entries);
}

/** Returns the allocations that journals of the node record, written to the datastore or not. */
export function allocationsInJournals(folder: string): readonly HeldAddress[] {
  return listSegments(folder).flatMap(({ path }) => readSegment(path).entries.flatMap(({ slots }) => takenBy(slots)));
}

/** Returns `<containerId>/<ifName>` of every attachment with an allocation in a journal: the datastore may not have it. */
export function attachmentsInJournals(folder: string): ReadonlySet<string> {
  return new Set(allocationsInJournals(folder).map(({ allocation }) => interfaceKey(allocation)));
}

function readSegment(path: string): Pick<ReadSegment, 'entries' | 'isNewer'> {
  try {
    return decodeSegment(readFileSync(path, 'utf8'));
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT') return { entries: [], isNewer: false };
    throw cause;
  }
}

/**
 * Locks and reads the journal of a run. Returns undefined when another process has locked a segment, `gone` when another
 * process has removed the journal, and `newer` when a newer release wrote it, which stays as it is.
 */
export function takeOverJournal(
  { folder, tryLock }: JournalPlace,
  run: string,
): OrphanedJournal | 'gone' | 'newer' | undefined {
  const taken: { readonly path: string; readonly fd: number }[] = [];
  const unlock = (): void => {
    for (const { fd } of taken.splice(0)) closeSync(fd);
  };
  try {
    for (const { path } of segmentsOf(folder, run)) {
      const fd = openIfThere(path);
      if (fd === undefined) continue;
      taken.push({ path, fd });
      if (!tryLock(fd)) {
        unlock();
        return undefined;
      }
    }
    // The process that had the lock before may have removed the file since it was listed.
    const segments = taken
      .filter(({ fd }) => fstatSync(fd).nlink > 0)
      .map(({ path }) => ({ path, ...decodeSegment(readFileSync(path, 'utf8')) }));
    if (segments.length === 0) {
      unlock();
      return 'gone';
    }
    if (segments.some(({ isNewer }) => isNewer)) {
      unlock();
      return 'newer';
    }
    const damaged = segments.filter(({ damagedLines }) => damagedLines > 0).map(({ path }) => path);
    return {
      node: segments.find(({ header }) => header !== undefined)?.header?.node,
      entries: segments.flatMap(({ entries }) => entries),
      damaged,
      unlock,
      remove: (mode) => {
        for (const { path } of segments) {
          if (mode === 'keep' && damaged.includes(path)) renameSync(path, damagedName(path));
          else rmSync(path, { force: true });
        }
        unlock();
      },
    };
  } catch (cause) {
    unlock();
    throw cause;
  }
}

function segmentsOf(folder: string, run: string): readonly Segment[] {
  return listSegments(folder).filter((segment) => segment.run === run && !segment.isDamaged);
}

/** Returns the segments by name, which is the order in which they were written. */
function listSegments(folder: string): readonly Segment[] {
  return listFolder(folder).flatMap((name) => {
    const parsed = parseSegmentName(name);
    return parsed === undefined ? [] : [{ ...parsed, path: join(folder, name) }];
  });
}

function listFolder(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch (cause) {
    if (isMissing(cause)) return [];
    throw cause;
  }
}

function openIfThere(path: string): number | undefined {
  try {
    return openSync(path, constants.O_RDWR);
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT') return undefined;
    throw cause;
  }
}
