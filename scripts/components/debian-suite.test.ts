import { describe, expect, it } from 'vitest';
import { findArchive } from './debian-suite.ts';

describe('finding the mirror of Debian', () => {
  it('takes the main section of the release, not its updates, its security fixes or the archive of another vendor', () => {
    const targets = [
      'http://security.example/debian-security/ bookworm-security main Debian-Security',
      'http://packages.example/node_20.x/ nodistro main',
      'http://mirror.example/debian/ bookworm-updates main Debian',
      'http://mirror.example/debian/ bookworm contrib Debian',
      'http://mirror.example/debian/ bookworm main Debian',
    ].join('\n');
    expect(findArchive(targets)).toEqual({ mirror: 'http://mirror.example/debian/', release: 'bookworm' });
  });

  it('finds none where apt has none', () => {
    expect(findArchive('')).toBeUndefined();
  });
});
