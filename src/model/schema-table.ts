import type { JsonSchema } from '@valibot/to-json-schema';
import { markdownTable } from '../base/markdown-table.ts';

interface Row {
  readonly path: string;
  readonly type: string;
  readonly byDefault: string;
  readonly about: string;
}

/** Generates a table of the fields of an object, in Markdown. */
export function fieldTable(schema: Pick<JsonSchema, 'properties' | 'required'>): string {
  const cells = rowsBelow('', schema).map(({ path, type, byDefault, about }) => [
    `\`${path}\``,
    type,
    byDefault,
    about,
  ]);
  return markdownTable(['Field', 'Type', 'Default', 'Meaning'], cells);
}

/** Returns the rows of all fields. Fields with the same structure as an earlier one refer to it. */
function rowsBelow(
  start: string,
  { properties = {}, required = [] }: Pick<JsonSchema, 'properties' | 'required'>,
): Row[] {
  const seen = new Map<string, string>();
  return Object.entries(properties).flatMap(([key, node]) => {
    if (typeof node === 'boolean') return [];
    const path = `${start}${key}`;
    const { place, inner } = innermost(path, node);
    const inside = JSON.stringify(inner.properties ?? {});
    const twin = seen.get(inside);
    if (inside !== '{}' && twin === undefined) seen.set(inside, place);
    const own = rowOf(path, node, required.includes(key) ? 'required' : '');
    return twin === undefined
      ? [own, ...rowsBelow(`${place}.`, inner)]
      : [{ ...own, about: `${own.about} Fields as of \`${twin}\`.` }];
  });
}

function rowOf(path: string, node: JsonSchema, otherwise: string): Row {
  const { description = '', default: byDefault } = node;
  const showsDefault = byDefault !== undefined && typeof byDefault !== 'object';
  return {
    path,
    type: typeText(node),
    byDefault: showsDefault ? `\`${JSON.stringify(byDefault)}\`` : otherwise,
    about: description,
  };
}

/** Returns the schema inside nested arrays, and its path with one `[]` for each level. */
function innermost(path: string, node: JsonSchema): { place: string; inner: JsonSchema } {
  const { items } = node;
  if (items === undefined || typeof items === 'boolean' || Array.isArray(items)) return { place: path, inner: node };
  return innermost(`${path}[]`, items);
}

function typeText(node: JsonSchema): string {
  if (node.const !== undefined) return `\`${JSON.stringify(node.const)}\``;
  if (node.enum !== undefined) {
    return node.enum
      .filter((option) => option !== '')
      .map((option) => `\`${JSON.stringify(option)}\``)
      .join(', ');
  }
  const { anyOf, items, additionalProperties } = node;
  if (anyOf !== undefined)
    return anyOf.map((each) => (typeof each === 'boolean' ? 'any' : typeText(each))).join(' or ');
  if (items !== undefined && typeof items !== 'boolean' && !Array.isArray(items)) return `array of ${typeText(items)}`;
  return typeof additionalProperties === 'object' && additionalProperties.type !== undefined
    ? `object of ${typeText(additionalProperties)}`
    : String(node.type);
}
