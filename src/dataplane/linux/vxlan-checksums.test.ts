import { describe, expect, it } from 'vitest';
import { wantedChecksums } from './vxlan-checksums.ts';

describe('checksums inside a VXLAN device', () => {
  it.each([
    ['4.18.0-553.el8', 'software'],
    ['5.4.0-190-generic', 'software'],
    ['5.7.19', 'software'],
    ['5.8.0', 'any'],
    ['5.15.0-1', 'any'],
    ['6.1.0', 'any'],
    ['unknown', 'any'],
  ])('are computed in software on kernels with wrong offload: %s', (release, wanted) => {
    expect(wantedChecksums('auto', release)).toBe(wanted);
  });

  it('are computed where the administrator chooses', () => {
    expect(wantedChecksums('software', '6.1.0')).toBe('software');
    expect(wantedChecksums('offload', '4.18.0')).toBe('offload');
  });
});
