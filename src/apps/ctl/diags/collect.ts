import { timeLimit } from '../../../base/clock.ts';
import { reasonOf } from '../../../base/errors.ts';
import { untilAborted } from '../../../base/until-aborted.ts';
import type { PackedFile } from './archive.ts';
import type { DiagsItem } from './item.ts';

/** Timeout of one item; an item that times out is listed as failed. */
const ITEM_MS = 15_000;

export interface Collected {
  readonly files: readonly PackedFile[];
  readonly failed: readonly { readonly path: string; readonly reason: string }[];
}

/** Gathers all items concurrently and redacts them. Returns files and failures sorted by path. */
export async function collect(
  items: readonly DiagsItem[],
  redact: (text: string) => string,
  signal: AbortSignal,
): Promise<Collected> {
  const outcomes = await Promise.all(
    items.map(async ({ path, gather }): Promise<PackedFile | Collected['failed'][0]> => {
      using limit = timeLimit(ITEM_MS, () => new Error(`timed out after ${String(ITEM_MS / 1000)} s`));
      const either = AbortSignal.any([signal, limit.signal]);
      try {
        return { path, text: redact(await untilAborted(gather(either), either)) };
      } catch (cause) {
        signal.throwIfAborted();
        return { path, reason: redact(reasonOf(cause)) };
      }
    }),
  );
  const sorted = outcomes.sort((a, b) => (a.path < b.path ? -1 : 1));
  return {
    files: sorted.filter((outcome) => 'text' in outcome),
    failed: sorted.filter((outcome) => 'reason' in outcome),
  };
}

/** Returns the file that lists what the archive contains and what could not be gathered. */
export function manifest(
  { files, failed }: Collected,
  about: { readonly tool: string; readonly node: string; readonly at: string },
): PackedFile {
  const sizes = files.map(({ path, text }) => ({ path, sizeBytes: Buffer.byteLength(text) }));
  return {
    path: 'manifest.json',
    text: `${JSON.stringify({ format: 1, ...about, files: sizes, failed }, undefined, 2)}\n`,
  };
}
