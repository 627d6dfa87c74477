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

  it('tells elements apart by what identifies them, and shows the part of an image that differs', () => {
    const podOf = (image: string, mounts: readonly object[]) => ({
      spec: { containers: [{ name: 'a', image, volumeMounts: mounts }] },
    });
    const [first, second] = [
      { name: 'v', mountPath: '/x' },
      { name: 'v', mountPath: '/y', readOnly: true },
    ];
    const [was, is] = [podOf('r.example/i:1', [first]), podOf('r.example/i:2', [second, first])];
    expect(diffObjects(was, is).map((each) => differenceLine(each))).toEqual([
      'spec.containers[a].image.tag: "2" (string) in place of "1" (string)',
      'spec.containers[a].volumeMounts[/y]: {"name":"v","mountPath":"/y","readOnly":true} (object) added',
    ]);
    expect(missingPaths(was, is)).toEqual(['spec.containers[a].image']);
    expect(missingPaths(is, was)).toEqual(['spec.containers[a].image', 'spec.containers[a].volumeMounts[/y]']);
  });
});
