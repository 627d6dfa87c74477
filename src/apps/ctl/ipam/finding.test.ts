import { describe, expect, it } from 'vitest';
import { IPAM_CHECKS, ipamFinding, isOf } from './finding.ts';

describe('a finding of ipam check', () => {
  it('has the severity and the expectation of its check, and says how it is repaired', () => {
    const repair = { kind: 'remove-link', link: { name: 'npl0', owner: undefined } } as never;
    expect(
      ipamFinding('stray-link', { subject: 'npl0', found: 'interface "npl0" belongs to nothing', repair }),
    ).toEqual({
      id: 'ipam/stray-link',
      severity: 'warning',
      expected: 'host interfaces that belong to a pod',
      subject: 'npl0',
      found: 'interface "npl0" belongs to nothing',
      remedy: 'Release leaked addresses',
      command: 'netplugctl ipam check --fix',
      repair,
    });
    expect(ipamFinding('unconfirmed-address', { subject: '10.0.0.1', found: 'f', repair }).command).toContain(
      '--unconfirmed --fix',
    );
  });

  it('names the command that shows more when nothing can be repaired', () => {
    expect(ipamFinding('block-size', { subject: '10.0.0.0/26', found: 'f' })).toMatchObject({
      remedy: 'Find out what changed the records, and correct them',
      command: 'netplugctl ipam check',
    });
  });

  it('belongs to one of the checks, each of which has its own id', () => {
    const ids = IPAM_CHECKS.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(IPAM_CHECKS.filter((check) => isOf(check, 'leaked-address'))).toHaveLength(1);
  });
});
