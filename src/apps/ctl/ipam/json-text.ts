/** JSON for tools; counts beyond what its numbers hold exactly become strings. */
export function jsonText(document: object): string {
  const exact = (_: string, value: unknown): unknown => {
    if (typeof value !== 'bigint') return value;
    return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : String(value);
  };
  return `${JSON.stringify(document, exact, 2)}\n`;
}
