import { describe, expect, it } from 'vitest';
import type { ApiObject } from '../objects.ts';
import { hasApplied, withFieldsTakenOver } from './managers.ts';

const objectOf = (managedFields: unknown): ApiObject => ({ metadata: { name: 'a', managedFields } });

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
    const after = withFieldsTakenOver(objectOf([applied('kubectl', 'a'), applied('helm', 'b'), edit, status]), 'me');
    expect(after).toEqual([edit, status, { ...applied('me', 'a'), fieldsV1: { 'f:spec': { 'f:a': {}, 'f:b': {} } } }]);
    expect(hasApplied(objectOf(after), 'me')).toBe(true);
    expect(hasApplied(objectOf([status, edit]), 'kubectl')).toBe(false);
  });

  it('are none when no installer has applied it', () => {
    expect(withFieldsTakenOver(objectOf([applied('argocd', 'a')]), 'me')).toBeUndefined();
    expect(withFieldsTakenOver(objectOf(undefined), 'me')).toBeUndefined();
  });
});
