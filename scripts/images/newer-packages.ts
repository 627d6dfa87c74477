import { spawnSync } from 'node:child_process';
import type { LockedPackage, Stanza } from './debian-packages.ts';

export interface NewerPackage extends LockedPackage {
  /** The newest version that the archive offers. */
  readonly offered: string;
}

/** Returns the locked packages of which the archive offers a newer version. */
export function newerPackages(locked: readonly LockedPackage[], offered: readonly Stanza[]): readonly NewerPackage[] {
  return locked.flatMap((one) => {
    const versions = offered.flatMap((stanza) => (stanza['Package'] === one.name ? [stanza['Version'] ?? ''] : []));
    const newest = versions.reduce((best, version) => (isNewer(version, best) ? version : best), one.version);
    return newest === one.version ? [] : { ...one, offered: newest };
  });
}

/** Debian's order of versions. */
function isNewer(version: string, than: string): boolean {
  return spawnSync('dpkg', ['--compare-versions', version, 'gt', than]).status === 0;
}
