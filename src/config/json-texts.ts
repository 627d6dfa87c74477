/** Returns the strings of a JSON array that contains only strings; undefined for any other text. */
export function readTextArray(text: string): readonly string[] | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    if (cause instanceof SyntaxError) return undefined;
    throw cause;
  }
  return Array.isArray(value) && value.every((entry) => typeof entry === 'string') ? value : undefined;
}
