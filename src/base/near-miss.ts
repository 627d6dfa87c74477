/** Returns the candidate that `word` most likely misspells, or undefined when none is close. */
export function nearMiss(word: string, candidates: readonly string[]): string | undefined {
  return sameLetters(word, candidates) ?? nearest(word, candidates)[0] ?? sameWords(word, candidates);
}

/** Returns the candidate that is closer to `word` than all others, so that a fix may write it without asking. */
export function onlyNearMiss(word: string, candidates: readonly string[]): string | undefined {
  const [first, second] = nearest(word, candidates);
  return sameLetters(word, candidates) ?? (second === undefined ? first : undefined);
}

/** Returns the candidate that differs from `word` only in case and word separators. */
export function sameLetters(word: string, candidates: readonly string[]): string | undefined {
  const folded = fold(word);
  return candidates.find((candidate) => fold(candidate) === folded);
}

/** Returns the text of a hint. */
export function didYouMean(word: string): string {
  return `did you mean "${word}"?`;
}

/** Returns the only candidate that contains every word of a name of several words. */
function sameWords(name: string, candidates: readonly string[]): string | undefined {
  const words = wordsOf(name);
  if (words.length < 2) return undefined;
  const [first, second] = candidates.filter((each) => words.every((word) => wordsOf(each).includes(word)));
  return second === undefined ? first : undefined;
}

function wordsOf(name: string): string[] {
  return name
    .replaceAll(/([a-z])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .split(/[-_ ]/);
}

/** Returns the candidates with the smallest edit distance, in their order. */
function nearest(word: string, candidates: readonly string[]): string[] {
  const folded = fold(word);
  const close = candidates
    .map((candidate) => ({ candidate, distance: editDistance(folded, fold(candidate)) }))
    .filter(({ candidate, distance }) => distance <= maxDistance(candidate));
  const fewest = Math.min(...close.map(({ distance }) => distance));
  return close.filter(({ distance }) => distance === fewest).map(({ candidate }) => candidate);
}

/** Returns the largest edit distance that counts as close: 1 for short words, which are close to many others. */
function maxDistance(candidate: string): number {
  return candidate.length <= 4 ? 1 : 2;
}

function fold(word: string): string {
  return word.toLowerCase().replaceAll(/[-_ ]/g, '');
}

/** Counts insertions, deletions, replacements and swaps of neighbours; Infinity when the lengths differ by more than 2. */
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
