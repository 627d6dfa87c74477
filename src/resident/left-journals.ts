import { closeSync, constants, fstatSync, openSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { errnoOf } from '../base/errors.ts';
import { interfaceKey } from '../model/names.ts';
import type { Datastore } from '../netconf/connection.ts';
import type { Entry } from './entry.ts';
import { decodeSegment, type JournalHeader } from './entry-codec.ts';
import type { JournalPlace } from './journal.ts';
import { runOfSegment } from './segment-name.ts';

/** A journal whose owner is gone, locked by this process until it is removed or let go. */
export interface LeftJournal {
  readonly header: JournalHeader;
  readonly entries: readonly Entry[];
  /** It is settled: nobody shall find it again. */
  remove(): void;
  /** Leaves it for the next one. */
  letGo(): void;
}

/** Runs that have a journal of the datastore, living or not. */
export function listRuns({ folder }: Pick<JournalPlace, 'folder'>, datastore: Datastore): ReadonlySet<string> {
  return new Set(segmentsOf(folder, datastore).map(({ run }) => run));
}

/** The journals of one run whose owner lives, to see what they mention. */
export function readJournal(folder: string, datastore: Datastore, run: string): readonly Entry[] {
  const paths = segmentsOf(folder, datastore).filter((segment) => segment.run === run);
  return paths.flatMap(({ path }) => readSegment(path));
}

/** `<containerId>/<ifName>` of everything that some journal of the node gives an address: it may not be published yet. */
export function attachmentsInJournals(folder: string): ReadonlySet<string> {
  const entries = listFolder(folder)
    .filter((name) => name.endsWith('.jsonl'))
    .flatMap((name) => readSegment(join(folder, name)));
  const takes = entries.flatMap(({ slots }) => slots.filter((slot) => slot.kind === 'take'));
  return new Set(takes.map(({ allocation }) => interfaceKey(allocation)));
}

function readSegment(path: string): readonly Entry[] {
  try {
    return decodeSegment(readFileSync(path, 'utf8'))?.entries ?? [];
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT') return [];
    throw cause;
  }
}

/**
 * Takes the journal of a run over; undefined when somebody else has the lock of a segment, `gone` when others have
 * removed it. A segment without a readable header was never used.
 */
export function takeJournal(
  { folder, tryLock }: JournalPlace,
  datastore: Datastore,
  run: string,
): LeftJournal | 'gone' | undefined {
  const taken: { readonly path: string; readonly fd: number }[] = [];
  const letGo = (): void => {
    for (const { fd } of taken.splice(0)) closeSync(fd);
  };
  try {
    for (const { path } of segmentsOf(folder, datastore).filter((segment) => segment.run === run)) {
      const fd = openIfThere(path);
      if (fd === undefined) continue;
      taken.push({ path, fd });
      if (!tryLock(fd)) {
        letGo();
        return undefined;
      }
    }
    // Whoever had the lock before may have removed the file since it was listed.
    const segments = taken
      .filter(({ fd }) => fstatSync(fd).nlink > 0)
      .flatMap(({ path }) => decodeSegment(readFileSync(path, 'utf8')) ?? []);
    const [first] = segments;
    if (first === undefined) {
      letGo();
      return 'gone';
    }
    return {
      header: first.header,
      entries: segments.flatMap(({ entries }) => entries),
      letGo,
      remove: () => {
        for (const { path } of taken) rmSync(path, { force: true });
        letGo();
      },
    };
  } catch (cause) {
    letGo();
    throw cause;
  }
}

function segmentsOf(folder: string, datastore: Datastore): { readonly path: string; readonly run: string }[] {
  return listFolder(folder).flatMap((name) => {
    const run = runOfSegment(name, datastore);
    return run === undefined ? [] : [{ path: join(folder, name), run }];
  });
}

function listFolder(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT' || errnoOf(cause) === 'ENOTDIR') return [];
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
