import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { CALLERS, describeRight, missingRights, rightsOf, ROLES } from './roles.ts';

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly rules: readonly { apiGroups: string[]; resources: string[]; verbs: string[] }[];
}

describe('the roles', () => {
  it('are those of the manifest', () => {
    const documents = parseAllDocuments(readFileSync('manifests/rbac.yaml', 'utf8')).map(
      (document) => document.toJS() as Manifest,
    );
    const shipped = documents
      .filter(({ kind }) => kind === 'ClusterRole')
      .map(({ metadata, rules }) => [
        metadata.name,
        rules.map(({ apiGroups, resources, verbs }) => ({ group: apiGroups[0], resources, verbs })),
      ]);
    expect(ROLES).toEqual(Object.fromEntries(shipped));
  });

  it('leave nothing missing for who has all of one caller', () => {
    for (const roles of CALLERS) expect(missingRights(new Set(rightsOf(roles).map(describeRight)))).toEqual([]);
  });

  it('name what is missing of the caller that comes closest', () => {
    const admin = rightsOf(['netplug-admin']).map(describeRight);
    expect(missingRights(new Set(admin.filter((right) => right !== 'delete ippools')))).toEqual([
      { role: 'netplug-admin', rights: ['delete ippools'] },
    ]);
    const plugin = rightsOf(CALLERS[1] ?? []).map(describeRight);
    const without = new Set(plugin.filter((right) => right !== 'patch nodes/status'));
    expect(missingRights(without)).toEqual([{ role: 'netplug-agent', rights: ['patch nodes/status'] }]);
  });
});
