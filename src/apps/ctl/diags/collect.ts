import { timeLimit } from '../../../base/clock.ts';
import { reasonOf } from '../../../base/errors.ts';
import { untilAborted } from '../../../base/until-aborted.ts';
import type { PackedFile } from './archive.ts';
import type { DiagsItem } from './item.ts';

/** For one item: what hangs is noted, and the others are packed. */
const ITEM_MS = 15_000;

export interface Collected {
  readonly files: readonly PackedFile[];
  readonly failed: readonly { readonly path: string; readonly reason: string }[];
}

/** Everything that can be had, without secrets, in the order of the paths. */
export async function collect(
  items: readonly DiagsItem[],
  redact: (text: string) => string,
  signal: AbortSignal,
): Promise<Collected> {
  const outcomes = await Promise.all(
    items.map(async ({ path, gather }): Promise<PackedFile | Collected['failed'][0]> => {
      using limit = timeLimit(ITEM_MS, () => new Error(`it took longer than ${String(ITEM_MS / 1000)} s`));
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

/** What is in the archive, and what is not. */
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
