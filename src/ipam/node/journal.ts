import {
  closeSync,
  constants,
  fdatasync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { NetplugError, errnoOf, reasonOf } from '../../base/errors.ts';
import type { Entry } from './entry.ts';
import { encodeLine, type JournalHeader } from './entry-codec.ts';
import { segmentName } from './segment-name.ts';

const fdatasyncOf = promisify(fdatasync);
/** The size at which a new segment is started. The old one is removed once everything in it is written. */
const SEGMENT_BYTES = 1_048_576;

export interface JournalPlace {
  readonly folder: string;
  /** Locks an open file until it is closed or the process exits. Returns false when another process holds the lock. */
  readonly tryLock: (fd: number) => boolean;
  /** Resolves when the data of an open file are on the disk; fdatasync unless given. */
  readonly syncData?: (fd: number) => Promise<void>;
}

/** A file of the journal. */
export interface Segment {
  readonly path: string;
  readonly fd: number;
  readonly headerBytes: number;
  size: number;
  /** Entries in it that are not written to the datastore. */
  open: number;
}

interface Waiting {
  readonly line: string;
  readonly resolve: (segment: Segment) => void;
  readonly reject: (cause: unknown) => void;
}

/**
 * The write-ahead log of decisions that are not yet written to the datastore. Entries that are added at the same time are
 * synced together. The file locks show other processes that the owner is alive.
 */
export class Journal {
  readonly #place: JournalPlace;
  readonly #header: JournalHeader;
  #current: Segment;
  #count = 1;
  #waiting: Waiting[] = [];
  #isWriting = false;

  private constructor(place: JournalPlace, header: JournalHeader, first: Segment) {
    this.#place = place;
    this.#header = header;
    this.#current = first;
  }

  /** @throws agent/journal-failed */
  static open(place: JournalPlace, header: JournalHeader): Journal {
    try {
      mkdirSync(place.folder, { recursive: true, mode: 0o700 });
    } catch (cause) {
      throw cannotWrite(place.folder, cause);
    }
    return new Journal(place, header, newSegment(place, header, 0));
  }

  /** Resolves when the entry survives a crash. @throws agent/journal-failed; then the entry is not in the journal */
  async add(entry: Entry): Promise<Segment> {
    const line = encodeLine(entry);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ line, resolve, reject });
      if (!this.#isWriting) void this.#write();
    });
  }

  /** Marks an entry of the segment as written to the datastore. */
  complete(segment: Segment): void {
    segment.open -= 1;
    if (segment.open > 0) return;
    if (segment !== this.#current) discard(segment);
    else if (segment.size > segment.headerBytes) {
      ftruncateSync(segment.fd, segment.headerBytes);
      segment.size = segment.headerBytes;
    }
  }

  /**
   * Closes the journal. Pending entries stay on disk for the next process, and so does an empty journal that is needed: a
   * process that finds it reclaims what the run has pre-allocated.
   */
  close({ isNeeded }: { readonly isNeeded: boolean }): void {
    if (this.#current.open === 0 && !isNeeded) discard(this.#current);
    else closeSync(this.#current.fd);
  }

  /** Never rejects: the waiting callers receive every failure. */
  async #write(): Promise<void> {
    this.#isWriting = true;
    while (this.#waiting.length > 0) {
      const round = this.#waiting;
      this.#waiting = [];
      try {
        const segment = this.#current.size > SEGMENT_BYTES ? this.#begin() : this.#current;
        await append(
          this.#place,
          segment,
          round.map(({ line }) => line),
        );
        for (const { resolve } of round) resolve(segment);
      } catch (cause) {
        for (const { reject } of round) reject(cause);
      }
    }
    this.#isWriting = false;
  }

  #begin(): Segment {
    const old = this.#current;
    this.#current = newSegment(this.#place, this.#header, this.#count);
    this.#count += 1;
    if (old.open === 0) discard(old);
    return this.#current;
  }
}

/** The lines count as open from the start, so that the segment is not discarded meanwhile. @throws agent/journal-failed */
async function append(
  { syncData = fdatasyncOf }: JournalPlace,
  segment: Segment,
  lines: readonly string[],
): Promise<void> {
  const bytes = Buffer.from(lines.join(''));
  segment.open += lines.length;
  try {
    for (let written = 0; written < bytes.length;) {
      written += writeSync(segment.fd, bytes, written, bytes.length - written, segment.size + written);
    }
    await syncData(segment.fd);
    segment.size += bytes.length;
  } catch (cause) {
    // The callers receive an error, so the lines must not reappear after a crash.
    segment.open -= lines.length;
    // Nor must lines that were completed meanwhile.
    if (segment.open === 0) segment.size = segment.headerBytes;
    ftruncateSync(segment.fd, segment.size);
    throw cannotWrite(segment.path, cause);
  }
}

/**
 * Creates a segment. It is locked and has its header before it is renamed into place, so that no process considers it
 * orphaned. @throws agent/journal-failed; then no file is left
 */
function newSegment({ folder, tryLock }: JournalPlace, header: JournalHeader, number: number): Segment {
  const path = join(folder, segmentName(header, number));
  const draft = `${path}.new`;
  const bytes = Buffer.from(encodeLine(header));
  try {
    const fd = openSync(draft, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600);
    try {
      if (!tryLock(fd)) throw new Error('another process holds its lock');
      writeSync(fd, bytes, 0, bytes.length, 0);
      fsyncSync(fd);
      renameSync(draft, path);
      syncFolder(folder);
      return { path, fd, headerBytes: bytes.length, size: bytes.length, open: 0 };
    } catch (cause) {
      closeSync(fd);
      rmSync(draft, { force: true });
      throw cause;
    }
  } catch (cause) {
    throw cannotWrite(path, cause);
  }
}

function discard({ path, fd }: Segment): void {
  closeSync(fd);
  rmSync(path, { force: true });
}

function syncFolder(folder: string): void {
  const fd = openSync(folder, constants.O_RDONLY);
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function cannotWrite(path: string, cause: unknown): NetplugError {
  const why = errnoOf(cause) ?? reasonOf(cause);
  return new NetplugError('agent/journal-failed', `Cannot write the journal "${path}": ${why}`, {
    hint: 'Make room on the file system of the state folder, or repair it; until then every call waits for the datastore',
    cause,
  });
}
