import { describe, expect, it } from 'vitest';
import { changedPaths, missingPaths } from './compare-objects.ts';
import { hasApplied, withFieldsTakenOver } from './take-over-fields.ts';

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
    expect(changedPaths(before, after)).toEqual([
      'spec.env[A]: {"name":"A","value":"1"} → none',
      'spec.env[B]: none → {"name":"B"}',
      'metadata.labels.a: "b" → none',
    ]);
  });
});

describe('fields of an object that was installed from a file', () => {
  const spec = (field: string) => ({ 'f:spec': { [`f:${field}`]: {} } });
  const applied = (manager: string, field: string) => ({
    manager,
    operation: 'Apply',
    apiVersion: 'v1',
    fieldsV1: spec(field),
  });

  it("become the operator's, those of a user's edit and of the status do not", () => {
    const edit = { manager: 'kubectl-edit', operation: 'Update', apiVersion: 'v1', fieldsV1: spec('c') };
    const status = { ...applied('kubectl', 's'), subresource: 'status' };
    const after = withFieldsTakenOver([applied('kubectl', 'a'), applied('helm', 'b'), edit, status], 'me');
    expect(after).toEqual([edit, status, { ...applied('me', 'a'), fieldsV1: { 'f:spec': { 'f:a': {}, 'f:b': {} } } }]);
    expect(hasApplied(after, 'me')).toBe(true);
    expect(hasApplied([status, edit], 'kubectl')).toBe(false);
  });

  it('are none when no installer has applied it', () => {
    expect(withFieldsTakenOver([applied('argocd', 'a')], 'me')).toBeUndefined();
    expect(withFieldsTakenOver(undefined, 'me')).toBeUndefined();
  });
});
