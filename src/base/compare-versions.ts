/** Returns the numbers of a version, without a leading `v` and without what follows the first `-`. */
export function plainVersion(version: string): string {
  return version.trim().replace(/^v/, '').replace(/-.*$/s, '');
}

/** Reports whether `a` is a later release than `b`; false when one of them is not a version. */
export function isNewerVersion(a: string, b: string): boolean {
  const [ours, theirs] = [numbersOf(a), numbersOf(b)];
  if (ours === undefined || theirs === undefined) return false;
  for (let index = 0; index < Math.max(ours.length, theirs.length); index += 1) {
    const difference = (ours[index] ?? 0) - (theirs[index] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return false;
}

/**
 * Reports whether `a` is a later release than `b` in the order of semantic versions, where `v3.27.0-rc.1` comes before `v3.27.0`;
 * false when one of them is not a version.
 */
export function isNewerRelease(a: string, b: string): boolean {
  if (isNewerVersion(a, b)) return true;
  if (isNewerVersion(b, a) || numbersOf(a) === undefined || numbersOf(b) === undefined) return false;
  return comparePrereleases(prereleaseOf(a), prereleaseOf(b)) > 0;
}

/** A release comes after its prereleases; numbers come before words. */
function comparePrereleases(ours: readonly string[], theirs: readonly string[]): number {
  if (ours.length === 0 || theirs.length === 0) return theirs.length - ours.length;
  for (const [index, our] of ours.entries()) {
    const their = theirs[index];
    if (their === undefined) return 1;
    if (our === their) continue;
    const [isOurNumber, isTheirNumber] = [/^\d+$/.test(our), /^\d+$/.test(their)];
    if (isOurNumber && isTheirNumber) return Number(our) - Number(their);
    if (isOurNumber !== isTheirNumber) return isOurNumber ? -1 : 1;
    return our > their ? 1 : -1;
  }
  return ours.length - theirs.length;
}

function prereleaseOf(version: string): readonly string[] {
  const [, prerelease] = /^[^-]*-(.+)$/.exec(version.trim()) ?? [];
  return prerelease?.split('.') ?? [];
}

function numbersOf(version: string): readonly number[] | undefined {
  const plain = plainVersion(version);
  return /^\d{1,9}(\.\d{1,9})*$/.test(plain) ? plain.split('.').map(Number) : undefined;
}
