import { describe, expect, it } from 'vitest';
import { differenceLine, diffObjects, missingPaths } from './diff.ts';

describe('the comparison of objects', () => {
  it('accepts defaults and entries of others, and names what is missing', () => {
    const desired = { spec: { a: 1, none: [], list: [{ name: 'x', value: 'y' }], plain: ['p'] } };
    const live = { spec: { a: 1, b: 2, list: [{ name: 'other' }, { name: 'x', value: 'y', more: 1 }], plain: ['p'] } };
    expect(missingPaths(desired, live)).toEqual([]);
    expect(missingPaths(desired, { spec: { a: 2, list: [{ name: 'x', value: 'z' }], plain: ['p', 'q'] } })).toEqual([
      'spec.a',
      'spec.list[x].value',
      'spec.plain',
    ]);
    expect(missingPaths(desired, undefined)).toEqual(['']);
  });

  it('lists what differs between two states, without status and bookkeeping', () => {
    const before = {
      metadata: { resourceVersion: '1', labels: { a: 'b' } },
      spec: { env: [{ name: 'A', value: '1' }] },
    };
    const after = { metadata: { resourceVersion: '2', labels: {} }, spec: { env: [{ name: 'B' }] }, status: { x: 1 } };
    expect(diffObjects(before, after).map((each) => differenceLine(each))).toEqual([
      'spec.env[A]: {"name":"A","value":"1"} (object) removed',
      'spec.env[B]: {"name":"B"} (object) added',
      'metadata.labels.a: "b" (string) removed',
    ]);
  });
});
