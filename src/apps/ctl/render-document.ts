import { renderYaml } from './resources/output/render.ts';

/** Renders a document as the format says; `toText` renders it for people. */
export function renderDocument<T>(
  document: T,
  output: 'table' | 'json' | 'yaml',
  toText: (document: T) => string,
): string {
  if (output === 'json') return jsonText(document);
  return output === 'yaml' ? renderYaml(document) : toText(document);
}

/** Renders JSON for tools; counts beyond what its numbers hold exactly become strings. */
export function jsonText(document: unknown): string {
  const exact = (_: string, value: unknown): unknown => {
    if (typeof value !== 'bigint') return value;
    return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : String(value);
  };
  return `${JSON.stringify(document, exact, 2)}\n`;
}
