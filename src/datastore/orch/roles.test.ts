import { describe, expect, it } from 'vitest';
import { CALLERS, describeRight, missingRights, rightsOf } from './roles.ts';

describe('the roles', () => {
  it('leave nothing missing for who has all of one caller', () => {
    for (const roles of CALLERS) expect(missingRights(new Set(rightsOf(roles).map(describeRight)))).toEqual([]);
  });

  it('name what is missing of the caller that the rights are most like', () => {
    const admin = rightsOf(['netplug-admin']).map(describeRight);
    expect(missingRights(new Set(admin.filter((right) => right !== 'delete ippools')))).toEqual([
      { role: 'netplug-admin', rights: ['delete ippools'] },
    ]);
    const agent = rightsOf(['netplug-agent', 'netplug-agent-datastore']).map(describeRight);
    const without = new Set(agent.filter((right) => right !== 'patch nodes/status'));
    expect(missingRights(without)).toEqual([{ role: 'netplug-agent-datastore', rights: ['patch nodes/status'] }]);
  });
});
