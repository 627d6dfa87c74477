import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFileAtomically } from '../base/atomic-file.ts';
import { counted } from '../base/counted.ts';
import { ignoreMissing } from '../base/missing-file.ts';
import { sha256Of } from '../base/sha256.ts';
import { visibleText } from '../base/visible-text.ts';
import { decodeKeptNote, encodeKeptNote, type KeptAttachment, type KeptNote } from '../model/kept-attachments.ts';
import { interfaceKey } from '../model/names.ts';

const SUFFIX = '.json';
/** A runtime that goes on with its short list calls GC again, and so renews the note. */
const SHOWN_MS = 86_400_000;
/** Maximum number of attachments that a message names. */
const NAMED = 20;

/** The node's notes of what GC kept, one of each network. */
export interface KeptNotes {
  /** Returns the notes that can be read, in no particular order. */
  list(): Promise<readonly KeptNote[]>;
  /** Replaces the note of the network; a note without attachments removes it. */
  put(note: KeptNote): Promise<void>;
}

/** Returns notes that are files in a folder that only root can read. */
export function keptNotesIn(folder: string): KeptNotes {
  const pathOf = (network: string): string => join(folder, `${sha256Of(network).slice(0, 32)}${SUFFIX}`);
  return {
    list: async () => {
      const names = (await readdir(folder).catch(ignoreMissing)) ?? [];
      const texts = names
        .filter((name) => name.endsWith(SUFFIX))
        .map(async (name) => readFile(join(folder, name), 'utf8').catch(ignoreMissing));
      return (await Promise.all(texts)).flatMap((text = '') => decodeKeptNote(text) ?? []);
    },
    put: async (note) => {
      if (note.kept.length === 0) return rm(pathOf(note.network), { force: true });
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await writeFileAtomically(pathOf(note.network), { text: encodeKeptNote(note), mode: 0o600 });
    },
  };
}

/** Returns notes that are kept in memory. */
export function memoryKeptNotes(): KeptNotes {
  const notes = new Map<string, KeptNote>();
  return {
    list: async () => Promise.resolve([...notes.values()]),
    put: async (note) => {
      if (note.kept.length === 0) notes.delete(note.network);
      else notes.set(note.network, note);
      return Promise.resolve();
    },
  };
}

/** Names attachments in a message: by pod, else by container. Names at most 20, and counts the rest. */
export function nameKept(kept: readonly KeptAttachment[]): readonly string[] {
  const names = kept.slice(0, NAMED).map(({ pod, containerId }) => visibleText(pod ?? `container ${containerId}`));
  return kept.length > NAMED ? [...names, `${String(kept.length - NAMED)} more`] : names;
}

export const KEPT_REMEDY =
  'If several runtimes use the network, set "disableGC": true beside "name" in its configuration list on this node, where the agent keeps it: a runtime may send DELs before GC, from which nothing else protects pods. If a pod has ended, remove its network namespace';

/** Returns the problem that a note of the last day shows; undefined when no attachment of it has a link any more. */
export function keptProblem(
  { network, at, kept }: KeptNote,
  { attached, nowMs }: { readonly attached: ReadonlySet<string>; readonly nowMs: number },
): string | undefined {
  const left = kept.filter((each) => attached.has(interfaceKey(each)));
  if (left.length === 0 || nowMs - Date.parse(at) > SHOWN_MS) return undefined;
  const what = `a runtime called GC of network "${visibleText(network)}" at ${at} without ${counted(left.length, 'attachment')}`;
  return `${what} with a network namespace that exists; kept: ${nameKept(left).join(', ')}`;
}
