import { describe, expect, it } from 'vitest';
import { isTooOld, type REQUIREMENTS } from './requirements.ts';

describe('isTooOld', () => {
  it.each<[keyof typeof REQUIREMENTS, string, boolean]>([
    ['kernel', '5.10.0-30-amd64', false],
    ['kernel', '5.10.223', false],
    ['kernel', '5.9.16-200.fc33.x86_64', true],
    ['kernel', '4.19.0-27-amd64', true],
    ['kernel', '6.1.0+', false],
    ['kernel', '', false],
    ['kubernetes', 'v1.34.0', false],
    ['kubernetes', 'v1.33.9-eks-abc', true],
    ['containerd', '1.7.29', true],
    ['containerd', '2.0.0-rc.1', false],
  ])('of %s with version "%s" returns %s', (part, version, isOld) => {
    expect(isTooOld(part, version)).toBe(isOld);
  });
});
