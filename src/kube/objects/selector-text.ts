import * as v from 'valibot';
import { LabelSelector } from '../../model/from-kubernetes/label-selector.ts';

/** Returns a label selector of an object as a list takes it; undefined for a value that is none. */
export function selectorText(selector: unknown): string | undefined {
  const read = v.safeParse(LabelSelector, selector);
  if (!read.success) return undefined;
  const { matchLabels, matchExpressions } = read.output;
  return [
    ...Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`),
    ...matchExpressions.map(({ key, operator, values }) => {
      if (operator === 'Exists') return key;
      if (operator === 'DoesNotExist') return `!${key}`;
      return `${key} ${operator === 'In' ? 'in' : 'notin'} (${(values ?? []).join(',')})`;
    }),
  ].join(',');
}
