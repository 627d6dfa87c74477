import { describe, expect, it } from 'vitest';
import { lockedFrom, parseStanzas, readLock, refuseOthers } from './debian-packages.ts';
import { releaseOf } from './declared.ts';
import { newerPackages } from './newer-packages.ts';

const SHOWN = `Package: bird2
Architecture: amd64
Source: bird2 (2.17.1-1)
Version: 2.17.1-1+b1
SHA256: aa
Description: BGP
 continued: here

Package: nftables
Version: 1.0.6-2
SHA256: bb
`;
const bird = {
  name: 'bird2',
  version: '2.17.1-1+b1',
  release: 'trixie',
  source: 'bird2 2.17.1-1',
  sha256: 'aa',
};
const nftables = {
  name: 'nftables',
  version: '1.0.6-2',
  release: 'bookworm',
  source: 'nftables 1.0.6-2',
  sha256: 'bb',
};

describe('the lock of Debian packages', () => {
  it('names the release, and the source package with its version, which may differ from that of the package', () => {
    expect(parseStanzas(SHOWN).map(lockedFrom)).toEqual([bird, nftables]);
  });

  it('takes every package from its declared release, and no package twice', () => {
    for (const packages of Object.values(readLock().packages)) {
      expect(packages.filter(({ name, release }) => release !== releaseOf(name))).toEqual([]);
      expect(new Set(packages.map(({ name }) => name)).size).toBe(packages.length);
      expect(packages.find(({ name }) => name === 'nftables')).toMatchObject({
        version: expect.stringMatching(/^1\.0\.6-/),
        release: 'bookworm',
      });
    }
  });

  it('accepts an archive that offers the locked versions', () => {
    expect(() => refuseOthers([bird, nftables], parseStanzas(SHOWN))).not.toThrow();
  });

  it('refuses another version, another checksum and a missing package, each by name, and says how to renew the lock', () => {
    const locked = [
      { ...bird, version: '2.17.0-1' },
      { ...nftables, sha256: 'cc' },
      { ...bird, name: 'tar' },
    ];
    expect(() => refuseOthers(locked, parseStanzas(SHOWN))).toThrow(
      'Cannot build the images: the archive of Debian offers bird2 2.17.1-1+b1, not 2.17.0-1; nftables 1.0.6-2 with another ' +
        'checksum; tar in no version, not 2.17.1-1+b1. Hint: run "make images-lock", and commit images/debian.lock.json',
    );
  });

  it("knows a newer package by Debian's order of versions, not by that of texts", () => {
    const offered = parseStanzas('Package: tar\nVersion: 1.10-1\n\nPackage: tar\nVersion: 1.9-2~rc1\n');
    const tar = { ...bird, name: 'tar', version: '1.9-2' };
    expect(newerPackages([tar], offered)).toEqual([{ ...tar, offered: '1.10-1' }]);
    expect(newerPackages([{ ...tar, version: '1.10-1' }], offered)).toEqual([]);
  });
});
