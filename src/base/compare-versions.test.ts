import { describe, expect, it } from 'vitest';
import { isNewerRelease, isNewerVersion, plainVersion } from './compare-versions.ts';

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

  it('orders releases and their prereleases as semantic versions do', () => {
    const ordered = [
      'v3.26.9',
      'v3.27.0-1',
      'v3.27.0-alpha',
      'v3.27.0-alpha.1',
      'v3.27.0-alpha.beta',
      'v3.27.0-beta',
      'v3.27.0-beta.2',
      'v3.27.0-beta.11',
      'v3.27.0-rc.1',
      'v3.27.0',
      'v3.27.1-rc.1',
      'v3.28.0',
    ];
    for (const [i, a] of ordered.entries()) {
      for (const [j, b] of ordered.entries()) expect([a, b, isNewerRelease(a, b)]).toEqual([a, b, i > j]);
    }
  });

  it.each([
    ['nightly', 'v3.27.0'],
    ['v3.27.0', 'nightly'],
    ['', 'v3.27.0'],
    ['v3.27.0', ''],
  ])('%j is not a newer release than %j', (a, b) => {
    expect(isNewerRelease(a, b)).toBe(false);
  });
});
