import { didYouMean, nearMiss } from '../../../../base/near-miss.ts';
import { notAllowed } from '../../command.ts';
import { JsonPathError, parsePath, parseTemplate } from './json-path-parser.ts';
import type { Path, Template } from './json-path.ts';

/** Output format of `get`. */
export type GetOutput =
  | { readonly form: PlainForm }
  | { readonly form: 'jsonpath'; readonly template: Template }
  | { readonly form: 'custom-columns'; readonly columns: readonly CustomColumn[] };

const PLAIN_FORMS = ['table', 'wide', 'yaml', 'json', 'name'] as const;
type PlainForm = (typeof PLAIN_FORMS)[number];

/** A column of the user, or one of the table's own by its title. */
export type CustomColumn =
  | { readonly by: 'path'; readonly title: string; readonly path: Path }
  | { readonly by: 'title'; readonly title: string };

export const GET_OUTPUTS = [...PLAIN_FORMS, 'jsonpath=TEMPLATE', 'custom-columns=TITLE:PATH,…'] as const;
const TABLE: GetOutput = { form: 'table' };

/** Parses the value of `-o`. Throws for a format that does not exist. */
export function readGetOutput(text: string): GetOutput {
  const plain = PLAIN_FORMS.find((form) => form === text);
  if (plain !== undefined) return { form: plain };
  const [form, rest] = splitOnce(text, '=');
  if (form === 'jsonpath' && rest !== undefined) {
    return { form, template: readOr(() => parseTemplate(rest), `The JSONPath "${rest}" cannot be read`) };
  }
  if (form === 'custom-columns' && rest !== undefined && rest !== '') {
    return { form, columns: rest.split(/,(?![^[({]*[\])}])/).map(readColumn) };
  }
  const meant = nearMiss(form, [...PLAIN_FORMS, 'jsonpath', 'custom-columns']);
  const hint = meant === undefined ? '' : `; ${didYouMean(meant)}`;
  return notAllowed(`Allowed is ${GET_OUTPUTS.join(', ')}${hint}`);
}

/** Parses the value of `--sort-by`. */
export function readSortPath(text: string): Path {
  return readOr(() => parsePath(text), `The path "${text}" cannot be read`);
}

export function isTable({ form }: GetOutput): boolean {
  return form === TABLE.form || form === 'wide' || form === 'custom-columns';
}

function readColumn(text: string): CustomColumn {
  const [title, path] = splitOnce(text, ':');
  if (title === '')
    return notAllowed(`The column "${text}" has no title; allowed is TITLE:PATH, or a title of the table`);
  if (path === undefined) return { by: 'title', title: title.toUpperCase() };
  return { by: 'path', title, path: readOr(() => parsePath(path), `The path of column "${title}" cannot be read`) };
}

function readOr<T>(read: () => T, what: string): T {
  try {
    return read();
  } catch (cause) {
    if (!(cause instanceof JsonPathError)) throw cause;
    return notAllowed(`${what}: ${cause.message}`);
  }
}

function splitOnce(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator);
  return at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}
