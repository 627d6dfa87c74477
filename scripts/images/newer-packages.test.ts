import { describe, expect, it } from 'vitest';
import { lockedFrom, parseStanzas, readLock, refuseOthers } from './debian-packages.ts';
import { newerPackages } from './newer-packages.ts';

const SHOWN = `Package: bird2
Architecture: amd64
Source: bird2 (2.17.1-1)
Version: 2.17.1-1+b1
SHA256: aa
Description: BGP
 continued: here

Package: tar
Version: 1.35-3
SHA256: bb
`;
const bird = {
  name: 'bird2',
  version: '2.17.1-1+b1',
  source: 'bird2 2.17.1-1',
  sha256: 'aa',
};
const tar = { name: 'tar', version: '1.35-3', source: 'tar 1.35-3', sha256: 'bb' };

describe('the lock of Debian packages', () => {
  it('names the source package with its version, which may differ from that of the package', () => {
    expect(parseStanzas(SHOWN).map(lockedFrom)).toEqual([bird, tar]);
  });

  it('has no package twice, and no nft', () => {
    for (const packages of Object.values(readLock().packages)) {
      expect(new Set(packages.map(({ name }) => name)).size).toBe(packages.length);
      expect(packages.map(({ name }) => name).filter((name) => /nft/.test(name))).toEqual([]);
    }
  });

  it('accepts an archive that offers the locked versions', () => {
    expect(() => refuseOthers([bird, tar], parseStanzas(SHOWN))).not.toThrow();
  });

  it('refuses another version, another checksum and a missing package, each by name, and says how to renew the lock', () => {
    const locked = [
      { ...bird, version: '2.17.0-1' },
      { ...tar, sha256: 'cc' },
      { ...bird, name: 'ip' },
    ];
    expect(() => refuseOthers(locked, parseStanzas(SHOWN))).toThrow(
      'Cannot build the images: the archive of Debian offers bird2 2.17.1-1+b1, not 2.17.0-1; tar 1.35-3 with another ' +
        'checksum; ip in no version, not 2.17.1-1+b1. Hint: run "make images-lock", and commit images/debian.lock.json',
    );
  });

  it("knows a newer package by Debian's order of versions, not by that of texts", () => {
    const offered = parseStanzas('Package: tar\nVersion: 1.10-1\n\nPackage: tar\nVersion: 1.9-2~rc1\n');
    const older = { ...tar, version: '1.9-2' };
    expect(newerPackages([older], offered)).toEqual([{ ...older, offered: '1.10-1' }]);
    expect(newerPackages([{ ...older, version: '1.10-1' }], offered)).toEqual([]);
  });
});
