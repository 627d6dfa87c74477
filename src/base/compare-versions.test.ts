import { describe, expect, it } from 'vitest';
import { isNewerVersion, plainVersion } from './compare-versions.ts';

describe('versions', () => {
  it.each([
    ['v3.27.0', '3.27.0'],
    ['3.27.0', '3.27.0'],
    ['v3.27.0-12-gabcdef', '3.27.0'],
    [' v3.27.0-rc.1\n', '3.27.0'],
    ['master', 'master'],
  ])('%j has the numbers %j', (text, plain) => {
    expect(plainVersion(text)).toBe(plain);
  });

  it.each([
    ['v3.27.1', 'v3.27.0', true],
    ['v3.28.0', 'v3.27.9', true],
    ['v3.27.10', 'v3.27.9', true],
    ['v4', 'v3.99.99', true],
    ['v3.27.0', 'v3.27.0', false],
    ['v3.27.0', 'v3.27', false],
    ['v3.27.0-rc.1', 'v3.27.0', false],
    ['v3.27.0', 'v3.27.1', false],
    ['v3.27.1', 'nightly', false],
    ['nightly', 'v3.27.1', false],
  ])('%j is newer than %j: %j', (a, b, isNewer) => {
    expect(isNewerVersion(a, b)).toBe(isNewer);
  });
});
