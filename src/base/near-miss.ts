/** The candidate somebody who wrote `word` most likely meant, or undefined when none is close. */
export function nearMiss(word: string, candidates: readonly string[]): string | undefined {
  const folded = fold(word);
  const sameLetters = candidates.find((candidate) => fold(candidate) === folded);
  if (sameLetters !== undefined) return sameLetters;
  let best: { candidate: string; distance: number } | undefined;
  for (const candidate of candidates) {
    const distance = editDistance(folded, fold(candidate));
    if (distance <= slipsAllowed(candidate) && distance < (best?.distance ?? Infinity)) best = { candidate, distance };
  }
  return best?.candidate;
}

/** The words of a hint, ready to show. */
export function didYouMean(word: string): string {
  return `did you mean "${word}"?`;
}

/** Short words are close to everything, so they get one slip only. */
function slipsAllowed(candidate: string): number {
  return candidate.length <= 4 ? 1 : 2;
}

function fold(word: string): string {
  return word.toLowerCase().replaceAll(/[-_ ]/g, '');
}

/** Insertions, deletions, replacements and swaps of neighbours; stops counting where the lengths alone rule it out. */
function editDistance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 2) return Infinity;
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const isSame = a[row - 1] === b[column - 1];
      let steps = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (isSame ? 0 : 1),
      );
      const isSwap = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (isSwap) steps = Math.min(steps, (beforeLast[column - 2] ?? 0) + 1);
      current.push(steps);
    }
    beforeLast = last;
    last = current;
  }
  return last[b.length] ?? Infinity;
}
