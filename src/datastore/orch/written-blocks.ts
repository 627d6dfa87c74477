import { type Clock, timeLimit } from '../../base/clock.ts';
import { untilAborted } from '../../base/until-aborted.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { isAtLeast, versionOf } from './block-objects.ts';

/** By then the watch has shown a write. An API server is not restored so fast, after which versions are used again. */
const KNOWN_MS = 2000;
/** The watch often shows a write a moment before the API has answered it. */
const ANSWER_MS = 100;

/** Blocks as the API answered our writes of them, so that whoever sees their versions in a watch need not read them back. */
export class WrittenBlocks {
  readonly #clock: Clock;
  /** By name. */
  readonly #underWay = new Map<string, Promise<unknown>>();
  /** By name, the earliest write first. */
  readonly #written = new Map<string, { readonly object: ApiObject; readonly atMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns what the write of the block of that name does, and remembers the object that it leaves. */
  async remember<T extends { readonly object: ApiObject | undefined } | 'conflict'>(
    name: string,
    write: Promise<T>,
  ): Promise<T> {
    this.#underWay.set(name, write);
    try {
      const written = await write;
      if (written !== 'conflict' && written.object !== undefined) this.#note(name, written.object);
      return written;
    } finally {
      if (this.#underWay.get(name) === write) this.#underWay.delete(name);
    }
  }

  /** Returns the block as it was just written, if that is the shown version or a later one, and forgets it. */
  async take(shown: ApiObject): Promise<ApiObject | undefined> {
    const { name } = shown.metadata;
    const underWay = this.#underWay.get(name);
    if (underWay !== undefined) {
      using limit = timeLimit(ANSWER_MS);
      await untilAborted(underWay, limit.signal).catch(() => undefined);
    }
    this.#forgetOld();
    const object = this.#written.get(name)?.object;
    this.#written.delete(name);
    return object !== undefined && isAtLeast(versionOf(object), versionOf(shown)) ? object : undefined;
  }

  #note(name: string, object: ApiObject): void {
    this.#forgetOld();
    this.#written.delete(name);
    this.#written.set(name, { object, atMs: this.#clock.monotonic() });
  }

  #forgetOld(): void {
    const oldestMs = this.#clock.monotonic() - KNOWN_MS;
    for (const [name, { atMs }] of this.#written) {
      if (atMs >= oldestMs) return;
      this.#written.delete(name);
    }
  }
}
