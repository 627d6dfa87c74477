import type { Mode } from '../../../base/mode.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import type { Context, Status } from '../ports.ts';
import { changeChosen, type Choice } from './choice.ts';
import { changeLabels, readLabelWords } from './label-changes.ts';
import { wantedByName } from './target.ts';

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
  const { part, ifThere } = options;
  const { what, done } = LABELLED[part];
  const { names, changes } = readLabelWords(options.words);
  const wanted = wantedByName(options.kind, names);
  const change = (stored: AnyResource): unknown => {
    const { metadata } = stored;
    return {
      ...stored,
      metadata: { ...metadata, [part]: changeLabels(metadata[part] ?? {}, changes, { ifThere, what }) },
    };
  };
  return changeChosen(context, { ...options, wanted }, { done, change });
}
