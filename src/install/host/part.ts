import { reportError } from '../../base/report-error.ts';
import type { Mode } from '../../base/mode.ts';

/** Kinds of objects that netplug creates on a host. */
export type PartKind = 'interface' | 'host port' | 'bird' | 'route' | 'tunnel' | 'table' | 'setting';

/** An object that could not be removed, and the reason. */
export interface Left {
  readonly subject: string;
  readonly reason: string;
}

/** All objects of one kind that netplug has created on this host, and how to remove them. */
export interface Part {
  readonly kind: PartKind;
  /** Returns the names of existing objects. Changes nothing. */
  find(signal: AbortSignal): Promise<readonly string[]>;
  /** Removes the objects; missing ones count as removed. Idempotent. Returns those that stay. */
  remove(subjects: readonly string[], signal: AbortSignal): Promise<readonly Left[]>;
}

export interface PartsReport {
  /** Called for each object that was removed, or that a dry run would remove. */
  readonly onGone: (kind: PartKind, subject: string) => void;
  readonly onLeft: (kind: PartKind, left: Left) => void;
}

/**
 * Removes the parts in sequence; a dry run only reports their objects. A failed part is reported, and the remaining
 * parts are still removed. Returns whether everything was removed.
 */
export async function removeParts(
  { io, signal }: { readonly io: { readonly stderr: (text: string) => void }; readonly signal: AbortSignal },
  parts: readonly Part[],
  { mode, report }: { readonly mode: Mode; readonly report: PartsReport },
): Promise<boolean> {
  let isComplete = true;
  for (const part of parts) {
    const { kind } = part;
    signal.throwIfAborted();
    try {
      const subjects = await part.find(signal);
      const left = mode === 'dry-run' || subjects.length === 0 ? [] : await part.remove(subjects, signal);
      const stays = new Set(left.map(({ subject }) => subject));
      for (const subject of subjects) if (!stays.has(subject)) report.onGone(kind, subject);
      for (const each of left) report.onLeft(kind, each);
      isComplete &&= left.length === 0;
    } catch (cause) {
      signal.throwIfAborted();
      reportError(io, cause);
      isComplete = false;
    }
  }
  return isComplete;
}
