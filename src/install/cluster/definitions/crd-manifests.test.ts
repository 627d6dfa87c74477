import { describe, expect, it } from 'vitest';
import { KINDS } from '../../../model/kinds.ts';
import { crdManifests } from './crd-manifests.ts';
import { resourceSchema } from './crd-schemas.ts';

/** Every key of every object inside. */
function keysOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [key, ...keysOf(inner)]);
}

describe('the definitions of custom resources', () => {
  it('are structural: nothing refers elsewhere, nothing is a union', () => {
    const keys = new Set(crdManifests().flatMap(keysOf));
    for (const key of ['$ref', '$schema', 'oneOf', 'anyOf', 'const', 'definitions']) expect(keys.has(key)).toBe(false);
  });

  it('describe every field of a pool', () => {
    const spec = resourceSchema('IPPool')['properties'];
    expect(spec).toHaveProperty('spec.properties.cidr', {
      type: 'string',
      format: 'cidr',
      maxLength: 49,
      'x-kubernetes-validations': expect.any(Array),
      description: expect.stringContaining('Range of the pool') as string,
    });
    for (const field of Object.keys(KINDS.IPPool.fields)) {
      expect(spec).toHaveProperty(`spec.properties.${field}.description`);
    }
  });
});
