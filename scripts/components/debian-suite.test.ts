import { describe, expect, it } from 'vitest';
import { parseArchives } from './debian-suite.ts';

describe('finding the mirrors of Debian', () => {
  it('takes the main section of the release, its updates and its security fixes, not the archive of another vendor', () => {
    const targets = [
      'http://security.example/debian-security/ bookworm-security main Debian-Security',
      'http://packages.example/node_20.x/ nodistro main',
      'http://mirror.example/debian/ bookworm-updates main Debian',
      'http://mirror.example/debian/ bookworm-backports main Debian Backports',
      'http://mirror.example/debian/ bookworm contrib Debian',
      'http://mirror.example/debian/ bookworm main Debian',
    ].join('\n');
    expect(parseArchives(targets)).toEqual([
      { mirror: 'http://security.example/debian-security/', release: 'bookworm', part: 'bookworm-security' },
      { mirror: 'http://mirror.example/debian/', release: 'bookworm', part: 'bookworm-updates' },
      { mirror: 'http://mirror.example/debian/', release: 'bookworm', part: 'bookworm' },
    ]);
  });

  it('finds none where apt has none', () => {
    expect(parseArchives('')).toEqual([]);
  });
});
