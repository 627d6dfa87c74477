import { readFileSync } from 'node:fs';
import { writeFileAtomically } from '../../../../base/atomic-file.ts';
import type { Clock } from '../../../../base/clock.ts';
import { isMissing } from '../../../../base/missing-file.ts';
import { ownValue } from '../../../../base/own-value.ts';
import { tryParseJson } from '../../../../base/try-parse-json.ts';
import type { GuardProof } from '../../../../policy/feed/messages.ts';

/** How long sidecars may take to come back to a new agent. Until then the kernel keeps what they guarded. */
const RECONNECT_MS = 20_000;

/** What sidecars have shown, kept for the agent after this one: its kernel rules must not close what they guard. */
export interface KeptGuards {
  /** Returns what the pod's sidecar showed an earlier agent; undefined when that is too long ago. */
  of(handle: string): { readonly proof: GuardProof; readonly lostMs: number } | undefined;
  put(handle: string, proof: GuardProof): void;
}

/** Keeps them in a file that only root can write, of a folder that is empty after a reboot. */
export class GuardFile implements KeptGuards {
  readonly #path: string;
  readonly #startMs: number;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #before: Readonly<Record<string, GuardProof>>;
  readonly #current = new Map<string, GuardProof>();
  #writing: Promise<void> = Promise.resolve();

  constructor(path: string, clock: Pick<Clock, 'monotonic'>) {
    this.#path = path;
    this.#clock = clock;
    this.#startMs = clock.monotonic();
    this.#before = readGuards(path);
  }

  of(handle: string): { readonly proof: GuardProof; readonly lostMs: number } | undefined {
    const proof = ownValue(this.#before, handle);
    if (proof === undefined || this.#clock.monotonic() - this.#startMs > RECONNECT_MS) return undefined;
    // It counts as lost later than it was, so that it lasts until the sidecar can be back.
    return { proof, lostMs: this.#startMs + RECONNECT_MS / 2 };
  }

  put(handle: string, proof: GuardProof): void {
    this.#current.set(handle, proof);
    const text = JSON.stringify(Object.fromEntries(this.#current));
    // What cannot be written costs a restarted agent a moment in which rules about requests open nothing.
    this.#writing = this.#writing
      .then(async () => writeFileAtomically(this.#path, { text, mode: 0o600 }))
      .catch(() => undefined);
  }
}

function readGuards(path: string): Readonly<Record<string, GuardProof>> {
  try {
    const read = tryParseJson(readFileSync(path, 'utf8'));
    return typeof read === 'object' && read !== null ? (read as Record<string, GuardProof>) : {};
  } catch (cause) {
    if (isMissing(cause)) return {};
    throw cause;
  }
}
