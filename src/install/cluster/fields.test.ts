import { describe, expect, it } from 'vitest';
import { isRecord } from '../../model/read-schema.ts';
import { resourceJsonSchema } from '../../model/resource-schema.ts';
import { FIELD_ROWS } from './fields.ts';
import { valueAt } from './spec-path.ts';

/** Objects of which a row has the whole. */
const OVERRIDES = ['node', 'controllers', 'typha'];

/** Returns the fields of a schema by their paths, those of the items of lists left out. */
function fieldsOf(schema: unknown, at = ''): readonly (readonly [path: string, description: string])[] {
  const properties = valueAt(schema, 'properties');
  if (!isRecord(properties) || OVERRIDES.includes(at)) return [[at, String(valueAt(schema, 'description'))]];
  return Object.entries(properties).flatMap(([name, field]) => fieldsOf(field, at === '' ? name : `${at}.${name}`));
}

const SCHEMA = fieldsOf(valueAt(resourceJsonSchema('Installation'), 'properties.spec'));

describe('the table of the fields of an Installation', () => {
  it('has exactly the fields of the schema', () => {
    expect(FIELD_ROWS.map(([path]) => path).sort()).toEqual(SCHEMA.map(([path]) => path).sort());
  });

  it('has the defaults that the descriptions of the fields name', () => {
    const named = FIELD_ROWS.filter(([, { byDefault }]) => ['string', 'number'].includes(typeof byDefault));
    expect(named.length).toBeGreaterThan(10);
    for (const [path, { byDefault }] of named) {
      expect(`${path}: ${new Map(SCHEMA).get(path) ?? ''}`).toMatch(
        new RegExp(`${JSON.stringify(byDefault)}(, the default| unless set)`),
      );
    }
  });
});
