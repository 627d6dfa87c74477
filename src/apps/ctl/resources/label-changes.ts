import { ownValue } from '../../../base/own-value.ts';
import { NetplugError } from '../../../base/errors.ts';
import type { Labels } from '../../../model/selector.ts';

/** Changes of labels or annotations. */
export interface LabelChanges {
  readonly put: Labels;
  readonly remove: readonly string[];
}

/** Tells names from changes: `KEY=VALUE` puts, `KEY-` removes, and neither can be a name. @throws cli/usage */
export function readLabelWords(words: readonly string[]): { names: readonly string[]; changes: LabelChanges } {
  const pairs = words.filter((word) => word.includes('=')).map(splitPair);
  const remove = words.filter((word) => !word.includes('=') && word.endsWith('-')).map((word) => word.slice(0, -1));
  const names = words.filter((word) => !word.includes('=') && !word.endsWith('-'));
  const keys = [...pairs.map(([key]) => key), ...remove];
  const twice = keys.find((key, index) => keys.indexOf(key) !== index);
  if (twice !== undefined) throw usage(`"${twice}" is named twice`);
  if (keys.includes('')) throw usage('a key is empty');
  if (keys.length === 0) throw usage('neither KEY=VALUE nor KEY- is given');
  return { names, changes: { put: Object.fromEntries(pairs), remove } };
}

/** The labels after the changes; `ifThere` is about those that have another value. `what` is what one of them is called. */
export function changeLabels(
  labels: Labels,
  { put, remove }: LabelChanges,
  { ifThere, what }: { readonly ifThere: 'overwrite' | 'fail'; readonly what: string },
): Labels {
  const other = Object.keys(put).find(
    (key) => Object.hasOwn(labels, key) && ownValue(labels, key) !== ownValue(put, key),
  );
  if (other !== undefined && ifThere === 'fail') {
    const values = `it is "${ownValue(labels, other) ?? ''}", not "${ownValue(put, other) ?? ''}"`;
    throw new NetplugError('resource/label-exists', `Cannot set ${what} "${other}": ${values}`, {
      hint: 'Give --overwrite to replace the value',
      facts: { key: other },
    });
  }
  const kept = Object.entries(labels).filter(([key]) => !remove.includes(key));
  return { ...Object.fromEntries(kept), ...put };
}

function splitPair(word: string): [string, string] {
  const at = word.indexOf('=');
  return [word.slice(0, at), word.slice(at + 1)];
}

function usage(state: string): NetplugError {
  return new NetplugError('cli/usage', `Cannot change labels: ${state}`, {
    hint: 'Write KEY=VALUE to set, KEY- to remove, each key once',
  });
}
