import { type Clock, timeLimit } from '../../base/clock.ts';
import { untilAborted } from '../../base/until-aborted.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { isSameVersion, versionOf } from './block-objects.ts';

/** By then the watch has shown a write. An API server is not restored so fast, after which versions are used again. */
const KNOWN_MS = 2000;
/** The watch often shows a write a moment before the API has answered it. */
const ANSWER_MS = 100;

/** Blocks as the API answered our writes of them. A follower whose watch shows such a version need not read the block back. */
export class WrittenBlocks {
  readonly #clock: Clock;
  /** By name. */
  readonly #underWay = new Map<string, Promise<unknown>>();
  /** By name, with when the write began. */
  readonly #written = new Map<string, { readonly object: ApiObject; readonly atMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns what the write of the block of that name does, and remembers the object that it leaves. */
  async remember<T extends { readonly object: ApiObject | undefined } | 'conflict'>(
    name: string,
    write: Promise<T>,
  ): Promise<T> {
    const atMs = this.#clock.monotonic();
    this.#underWay.set(name, write);
    try {
      const written = await write;
      if (written === 'conflict') return written;
      this.forget(name);
      if (written.object !== undefined) this.#written.set(name, { object: written.object, atMs });
      return written;
    } finally {
      if (this.#underWay.get(name) === write) this.#underWay.delete(name);
    }
  }

  /** Returns the block of exactly that version if it was just written; waits briefly for a write under way. */
  async find(shown: ApiObject, signal: AbortSignal): Promise<ApiObject | undefined> {
    const known = this.#findNow(shown);
    const underWay = this.#underWay.get(shown.metadata.name);
    if (known !== undefined || underWay === undefined) return known;
    using limit = timeLimit(ANSWER_MS);
    await untilAborted(underWay, AbortSignal.any([signal, limit.signal])).catch(() => undefined);
    return this.#findNow(shown);
  }

  /** Forgets the block of that name, as before it is written in another way. */
  forget(name: string): void {
    this.#forgetOld();
    this.#written.delete(name);
  }

  #findNow(shown: ApiObject): ApiObject | undefined {
    this.#forgetOld();
    const object = this.#written.get(shown.metadata.name)?.object;
    return object !== undefined && isSameVersion(versionOf(object), versionOf(shown)) ? object : undefined;
  }

  #forgetOld(): void {
    const oldestMs = this.#clock.monotonic() - KNOWN_MS;
    for (const [name, { atMs }] of this.#written) if (atMs < oldestMs) this.#written.delete(name);
  }
}
