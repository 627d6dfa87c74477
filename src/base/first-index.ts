/** Returns the first index for which `isBefore` is false; `count` without one. Those for which it is true must come first. */
export function firstIndex(count: number, isBefore: (index: number) => boolean): number {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}
