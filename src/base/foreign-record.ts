import * as v from 'valibot';

type Text = v.GenericSchema<string, string>;
type Outcome = v.OutputDataset<unknown, v.BaseIssue<unknown>>;

/**
 * Returns a schema of an object whose keys netplug does not choose, such as labels. It keeps every key, while the record of
 * the schema library drops `prototype`, `constructor` and `__proto__` without an issue. It refuses a list.
 */
export function foreignRecord<
  const K extends Text,
  const V extends v.GenericSchema,
  const M extends string | undefined = undefined,
>(key: K, value: V, message?: M): v.RecordSchema<K, V, M> {
  // oxlint-disable-next-line no-restricted-properties -- declares everything but the run, which is below
  const library = v.record(key, value, message) as v.RecordSchema<K, V, M>;
  const run = (dataset: v.UnknownDataset, config: v.Config<v.BaseIssue<unknown>>): Outcome => {
    const input = dataset.value;
    if (typeof input === 'object' && input !== null && !Array.isArray(input))
      return runEntries({ key, value }, input, config);
    v._addIssue(library, 'type', dataset, config);
    // The issue makes it a failure, which its type does not follow.
    return dataset as unknown as Outcome;
  };
  // The library types a run by what the schema describes: here, the output of both schemas for each entry.
  return { ...library, '~run': run as (typeof library)['~run'] };
}

function runEntries(
  { key: keySchema, value: valueSchema }: { readonly key: Text; readonly value: v.GenericSchema },
  input: object,
  config: v.Config<v.BaseIssue<unknown>>,
): Outcome {
  const issues: v.BaseIssue<unknown>[] = [];
  let typed: boolean = true;
  const entries = Object.entries(input).map(([key, value]: [string, unknown]) => {
    const place = { type: 'object', input: input as Record<string, unknown>, key, value } as const;
    const [readKey, read] = [keySchema['~run']({ value: key }, config), valueSchema['~run']({ value }, config)];
    for (const issue of readKey.issues ?? []) issues.push({ ...issue, path: [{ ...place, origin: 'key' }] });
    for (const { path = [], ...issue } of read.issues ?? [])
      issues.push({ ...issue, path: [{ ...place, origin: 'value' }, ...path] });
    typed &&= readKey.typed && read.typed;
    return [readKey.value as string, read.value] as const;
  });
  // It defines each entry, also `__proto__`, which an assignment would not.
  const value = Object.fromEntries(entries);
  const [first, ...others] = issues;
  return first === undefined ? { typed: true, value } : { typed, value, issues: [first, ...others] };
}
