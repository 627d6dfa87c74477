import type { Mode } from '../../../base/mode.ts';
import { withStoreToChange } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { runBatch } from './batch.ts';
import { type Choice, chosenOf } from './choice.ts';
import { decodeChanged } from './decode-changed.ts';
import { changeLabels, readLabelWords } from './label-changes.ts';
import { wantedByName } from './target.ts';
import { changeStored } from './write-resource.ts';

/** The part of the metadata that is changed, what one entry of it is called, and what has happened then. */
export const LABELLED = {
  labels: { what: 'label', done: 'labelled' },
  annotations: { what: 'annotation', done: 'annotated' },
} as const;

export interface LabelOptions extends Choice {
  readonly part: keyof typeof LABELLED;
  readonly kind: string;
  /** Names and changes, mixed. */
  readonly words: readonly string[];
  readonly ifThere: 'overwrite' | 'fail';
  readonly mode: Mode;
}

/** `label` and `annotate`. */
export async function label(context: Context, options: LabelOptions): Promise<Status> {
  const { part, mode, ifThere } = options;
  const { what, done } = LABELLED[part];
  const { names, changes } = readLabelWords(options.words);
  const wanted = wantedByName(options.kind, names);
  return withStoreToChange(context, { mode }, async (store) => {
    const writing = { ...context.ports, store, signal: context.signal, mode };
    const chosen = await chosenOf(context, store, { ...options, wanted });
    const items = chosen.map((which) => ({
      which,
      run: async () => {
        const outcome = await changeStored(writing, which, {
          change: (stored) => {
            const { metadata } = stored;
            const next = changeLabels(metadata[part] ?? {}, changes, { ifThere, what });
            return decodeChanged(stored, { ...stored, metadata: { ...metadata, [part]: next } });
          },
        });
        return outcome === 'changed' ? done : outcome;
      },
    }));
    return runBatch(context, items, mode);
  });
}
