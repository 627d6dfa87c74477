import * as v from 'valibot';
import { foreignRecord } from '../../base/foreign-record.ts';
import { isLabelValue, isQualifiedName } from '../metadata.ts';

const LabelKey = v.pipe(v.string(), v.check(isQualifiedName, 'a key of it is no label name'));
const Value = v.pipe(v.string(), v.check(isLabelValue, 'a value of it is no label value'));
const Values = v.pipe(v.array(Value), v.minLength(1, 'In and NotIn need values'));
const NoValues = v.optional(
  v.nullable(v.pipe(v.array(v.string()), v.maxLength(0, 'Exists and DoesNotExist have no values'))),
);

const Expression = v.variant('operator', [
  v.object({ key: LabelKey, operator: v.picklist(['In', 'NotIn']), values: Values }),
  v.object({ key: LabelKey, operator: v.picklist(['Exists', 'DoesNotExist']), values: NoValues }),
]);

export const LabelSelector = v.object({
  matchLabels: v.nullish(foreignRecord(LabelKey, Value), {}),
  matchExpressions: v.nullish(v.array(Expression), []),
});

/**
 * Returns the terms of a selector text that mean the same, to be joined by `&&`: none selects everything. `nameOf` returns the name
 * by which selectors find a label that a user gave.
 */
export function selectorTerms(
  { matchLabels, matchExpressions }: v.InferOutput<typeof LabelSelector>,
  nameOf: (label: string) => string,
): string[] {
  const equal = Object.entries(matchLabels).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return [
    ...equal.map(([key, value]) => `${nameOf(key)} == '${value}'`),
    ...matchExpressions.map((expression) => termOf({ ...expression, key: nameOf(expression.key) })),
  ];
}

function termOf({ key, operator, values }: v.InferOutput<typeof Expression>): string {
  if (operator === 'Exists') return `has(${key})`;
  if (operator === 'DoesNotExist') return `! has(${key})`;
  const set = `{ ${(values ?? []).map((value) => `'${value}'`).join(', ')} }`;
  return `${key} ${operator === 'In' ? 'in' : 'not in'} ${set}`;
}
