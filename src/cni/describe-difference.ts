/** Describes how `found` differs from `expected`, as a predicate such as "lacks 10.0.0.1"; undefined when they are equal. */
export function describeDifference(expected: readonly string[], found: readonly string[]): string | undefined {
  const missing = expected.filter((text) => !found.includes(text));
  const extra = found.filter((text) => !expected.includes(text));
  if (missing.length === 0 && extra.length === 0) return undefined;
  const parts = [];
  if (missing.length > 0) parts.push(`lacks ${missing.join(', ')}`);
  if (extra.length > 0) parts.push(`has ${extra.join(', ')} besides`);
  return parts.join(' and ');
}
