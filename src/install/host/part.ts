import { reportError } from '../../base/report-error.ts';

/** What kind of thing netplug has put on a host. */
export type PartKind = 'interface' | 'bird' | 'route' | 'tunnel' | 'table' | 'setting';

/** Something that stays, and why. */
export interface Left {
  readonly subject: string;
  readonly reason: string;
}

/** All things of one kind that netplug has put on this host, and how they go. */
export interface Part {
  readonly kind: PartKind;
  /** Names what is there, and changes nothing. */
  find(signal: AbortSignal): Promise<readonly string[]>;
  /** Removes what was found; what is gone already counts as removed. May be repeated. */
  remove(subjects: readonly string[], signal: AbortSignal): Promise<readonly Left[]>;
}

export interface PartsReport {
  /** Told of each thing that went, or that would go. */
  readonly onGone: (kind: PartKind, subject: string) => void;
  readonly onLeft: (kind: PartKind, left: Left) => void;
}

/**
 * Removes one part after the other, or only names what is there. A part that fails is reported and does not keep the
 * others from going. Returns whether nothing stays.
 */
export async function removeParts(
  { io, signal }: { readonly io: { readonly stderr: (text: string) => void }; readonly signal: AbortSignal },
  parts: readonly Part[],
  { mode, report }: { readonly mode: 'carry-out' | 'rehearse'; readonly report: PartsReport },
): Promise<boolean> {
  let isComplete = true;
  for (const part of parts) {
    const { kind } = part;
    signal.throwIfAborted();
    try {
      const subjects = await part.find(signal);
      const left = mode === 'rehearse' || subjects.length === 0 ? [] : await part.remove(subjects, signal);
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
