import { readFileSync } from 'node:fs';
import * as v from 'valibot';
import { writeFileAtomically } from '../../../../base/atomic-file.ts';
import type { Clock } from '../../../../base/clock.ts';
import { foreignRecord } from '../../../../base/foreign-record.ts';
import { isMissing } from '../../../../base/missing-file.ts';
import { ownValue } from '../../../../base/own-value.ts';
import { tryParseJson } from '../../../../base/try-parse-json.ts';
import type { Guarded, LostGuard } from './pod-guard.ts';

/** How long sidecars may take to come back to a new agent. Until then the kernel keeps what they guarded. */
const RECONNECT_MS = 20_000;

const kept = foreignRecord(v.string(), v.object({ ports: v.array(v.number()), families: v.array(v.picklist([4, 6])) }));
type Kept = v.InferOutput<typeof kept>;

/** What sidecars guard, kept for the agent after this one: its kernel rules must not close it. */
export interface KeptGuards {
  /** Returns what the pod's sidecar guarded for an earlier agent; undefined when that is too long ago. */
  of(handle: string): LostGuard | undefined;
  /** Keeps what is guarded now, by the handles of pods, in place of what was kept before. */
  replace(guards: ReadonlyMap<string, Guarded>): void;
}

/** Keeps them in a file that only root can write, of a folder that is empty after a reboot. */
export class GuardFile implements KeptGuards {
  readonly #path: string;
  readonly #startMs: number;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #before: Kept;
  #text = '';
  #isWriting = false;

  constructor(path: string, clock: Pick<Clock, 'monotonic'>) {
    this.#path = path;
    this.#clock = clock;
    this.#startMs = clock.monotonic();
    this.#before = readGuards(path);
  }

  of(handle: string): LostGuard | undefined {
    const before = ownValue(this.#before, handle);
    if (before === undefined || this.#clock.monotonic() - this.#startMs > RECONNECT_MS) return undefined;
    // It counts as lost later than it was, so that it lasts until the sidecar can be back.
    return { ...before, lostMs: this.#startMs + RECONNECT_MS / 2 };
  }

  replace(guards: ReadonlyMap<string, Guarded>): void {
    const text = JSON.stringify(Object.fromEntries(guards));
    if (text === this.#text) return;
    this.#text = text;
    if (!this.#isWriting) void this.#write();
  }

  /** What cannot be written costs a restarted agent a moment in which rules about requests open nothing. */
  async #write(): Promise<void> {
    this.#isWriting = true;
    let written: string | undefined;
    while (written !== this.#text) {
      written = this.#text;
      await writeFileAtomically(this.#path, { text: written, mode: 0o600 }).catch(() => undefined);
    }
    this.#isWriting = false;
  }
}

function readGuards(path: string): Kept {
  try {
    const read = v.safeParse(kept, tryParseJson(readFileSync(path, 'utf8')));
    return read.success ? read.output : {};
  } catch (cause) {
    if (isMissing(cause)) return {};
    throw cause;
  }
}
