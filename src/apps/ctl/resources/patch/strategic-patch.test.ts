import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { mergeKey } from '../../../../model/schema-shape.ts';
import { applyStrategicPatch } from './strategic-patch.ts';

const SCHEMA = v.looseObject({
  spec: v.looseObject({
    ports: v.optional(
      v.pipe(
        v.array(v.looseObject({ name: v.string(), port: v.number() })),
        v.readonly(),
        mergeKey('name'),
        v.description('Ports.'),
      ),
    ),
    uses: v.array(v.string()),
    bgp: v.optional(v.looseObject({ asNumber: v.number() })),
  }),
});
const DOCUMENT = {
  metadata: { labels: { a: '1', b: '2' } },
  spec: {
    ports: [
      { name: 'http', port: 80, later: true },
      { name: 'dns', port: 53 },
    ],
    uses: ['x', 'y'],
    bgp: { asNumber: 1, later: 2 },
  },
};

function patched(patch: object): typeof DOCUMENT {
  return applyStrategicPatch(DOCUMENT, patch, SCHEMA) as typeof DOCUMENT;
}

describe('a strategic patch', () => {
  it('merges objects, removes what is null, and replaces lists without a merge key', () => {
    const { metadata, spec } = patched({
      metadata: { labels: { a: null, c: '3' } },
      spec: { uses: ['z'], bgp: { asNumber: 2 } },
    });
    expect(metadata).toEqual({ labels: { b: '2', c: '3' } });
    expect(spec).toEqual({ ...DOCUMENT.spec, uses: ['z'], bgp: { asNumber: 2, later: 2 } });
  });

  it('matches the items of a list by its merge key, and keeps their order and unknown fields', () => {
    const ports = [
      { name: 'http', port: 8080 },
      { name: 'ssh', port: 22 },
    ];
    expect(patched({ spec: { ports } }).spec.ports).toEqual([
      { name: 'http', port: 8080, later: true },
      { name: 'dns', port: 53 },
      { name: 'ssh', port: 22 },
    ]);
  });

  it('deletes and replaces where $patch says so', () => {
    const ports = [
      { name: 'http', $patch: 'delete' },
      { name: 'ftp', $patch: 'delete' },
    ];
    expect(patched({ spec: { ports } }).spec.ports).toEqual([{ name: 'dns', port: 53 }]);
    const alone = [{ $patch: 'replace' }, { name: 'ssh', port: 22 }];
    expect(patched({ spec: { ports: alone } }).spec.ports).toEqual([{ name: 'ssh', port: 22 }]);
    expect(patched({ spec: { bgp: { $patch: 'replace', asNumber: 3 } } }).spec.bgp).toEqual({ asNumber: 3 });
    expect(patched({ spec: { bgp: { $patch: 'delete' } } }).spec).not.toHaveProperty('bgp');
  });

  it.each([
    [{ spec: { ports: [{ port: 1 }] } }, 'spec.ports[0].name: missing: required merge key of the list'],
    [{ spec: { bgp: { $patch: 'remove' } } }, 'found "remove" (string), allowed is "merge", "replace", "delete"'],
    [{ spec: { $retainKeys: ['a'] } }, 'is not supported; allowed is "$patch"'],
  ])('is refused with the place: %j', (patch, message) => {
    expect(() => patched(patch)).toThrow(message);
  });
});
