import { describe, expect, it } from 'vitest';
import { crdManifests } from '../definitions/crd-manifests.ts';
import { RENDERED_ROLES } from './operator-roles.ts';
import { ROLE_LIST, ROLES } from './role-table.ts';
import { describeRight } from '../../../model/right.ts';
import { CALLERS, missingRights, rightsOf } from './roles.ts';

describe('the roles', () => {
  it('leave nothing missing for who has all of one caller', () => {
    for (const roles of CALLERS) expect(missingRights(new Set(rightsOf(roles).map(describeRight)))).toEqual([]);
  });

  it('name what is missing of the caller that the rights are most like', () => {
    const admin = rightsOf(['netplug-admin']).map(describeRight);
    expect(missingRights(new Set(admin.filter((right) => right !== 'delete ippools.netplug.io')))).toEqual([
      { role: 'netplug-admin', rights: ['delete ippools.netplug.io'] },
    ]);
    const agent = rightsOf(['netplug-agent', 'netplug-agent-datastore']).map(describeRight);
    const without = new Set(agent.filter((right) => right !== 'patch nodes/status'));
    expect(missingRights(without)).toEqual([{ role: 'netplug-agent-datastore', rights: ['patch nodes/status'] }]);
  });

  it('tell resources of one name in two groups apart', () => {
    const rights = new Set(rightsOf(['netplug-admin', 'netplug-orch-controllers-mirror']).map(describeRight));
    expect(rights).toContain('get networkpolicies.netplug.io');
    expect(rights).toContain('get networkpolicies.networking.k8s.io');
  });
});

describe('the roles for users', () => {
  it('give no access to nodes but that of the installer: no Installation, and no status of pods and nodes', () => {
    const writes = ROLE_LIST.filter(({ account, name }) => account === undefined && name !== 'netplug-installer')
      .flatMap(({ rules }) => rules)
      .filter(({ verbs }) => verbs.some((verb) => !['get', 'list', 'watch', 'use'].includes(verb)));
    expect(writes.length).toBeGreaterThan(0);
    expect(writes.every(({ group }) => group === 'netplug.io')).toBe(true);
    expect(writes.flatMap(({ resources }) => resources)).not.toContain('installations');
  });
});

describe('the roles of the operator', () => {
  it('name every role, account and definition that it creates, and no other', () => {
    const rendered = ROLE_LIST.filter(
      ({ account, datastore }) => account !== 'netplug-operator' && datastore !== 'kvv3',
    );
    const namesIn = (isNamespaced: boolean) =>
      rendered.filter(({ namespace }) => (namespace !== undefined) === isNamespaced).map(({ name }) => name);
    expect([...RENDERED_ROLES.cluster].sort()).toEqual(namesIn(false).sort());
    expect([...RENDERED_ROLES.namespace].sort()).toEqual(namesIn(true).sort());
    const namesOf = (resource: string) =>
      [ROLES['netplug-operator'], ROLES['netplug-operator-namespace']]
        .flatMap((role) => role.rules)
        .flatMap(({ resources, names }) => (resources.includes(resource) ? (names ?? []) : []));
    expect(namesOf('serviceaccounts').sort()).toEqual(
      [...new Set(rendered.flatMap(({ account }) => account ?? []))].sort(),
    );
    expect(namesOf('customresourcedefinitions').sort()).toEqual(
      crdManifests()
        .map(({ metadata }) => (metadata as { name: string }).name)
        .sort(),
    );
  });

  it('limit everything that it writes by name, except pools, which users name, installations, leases and events', () => {
    const free = [ROLES['netplug-operator'], ROLES['netplug-operator-namespace']]
      .flatMap((role) => role.rules)
      .filter(
        ({ names, verbs }) => names === undefined && verbs.some((verb) => !['get', 'list', 'watch'].includes(verb)),
      )
      .flatMap(({ resources }) => resources);
    expect([...new Set(free)].sort()).toEqual(['events', 'installations', 'installations/status', 'ippools', 'leases']);
  });
});
