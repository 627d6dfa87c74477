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

function numbersOf(version: string): readonly number[] | undefined {
  const plain = plainVersion(version);
  return /^\d{1,9}(\.\d{1,9})*$/.test(plain) ? plain.split('.').map(Number) : undefined;
}
