// Checks what people read: links lead to pages and headings that exist, pages and paragraphs stay short enough to be read, and
// rows of tables are not padded, so that a changed word changes one line.
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

const PAGES = ['*.md', 'docs/**/*.md', 'test/**/*.md', 'images/**/*.md', 'examples/**/*.md'];
/** Parts of generated pages, which are checked there. */
const PARTS = /^docs\/netplugctl\/notes\//;
const MOST_LINES = 400;
const MOST_CHARACTERS = 600;
/** Notes of a day, which stay as they were written. */
const DECISIONS = /^docs\/decisions\//;
/** Made from declarations, in tables. */
const REFERENCE = ['docs/resources.md'];

interface Page {
  readonly file: string;
  readonly text: string;
}

/** Returns what is wrong with the pages, a line each. */
export function faultsOf(pages: readonly Page[], exists: (path: string) => boolean): string[] {
  const anchors = new Map(pages.map(({ file, text }) => [file, anchorsOf(text)]));
  return pages.flatMap((page) => [
    ...linksOf(page.text).flatMap((link) => faultOfLink(page, link, anchors, exists)),
    ...faultsOfLength(page),
  ]);
}

function faultOfLink(
  { file }: Page,
  link: string,
  anchors: ReadonlyMap<string, ReadonlySet<string>>,
  exists: (path: string) => boolean,
): string[] {
  if (/^[a-z]+:/.test(link)) return [];
  const [path = '', anchor] = link.split('#');
  const target = path === '' ? file : normalize(join(dirname(file), path));
  if (!exists(target)) return [`${file}: the link ${link} leads to no file`];
  const isThere = anchor === undefined || (anchors.get(target)?.has(anchor) ?? true);
  return isThere ? [] : [`${file}: the link ${link} leads to no heading`];
}

function faultsOfLength({ file, text }: Page): string[] {
  const lines = text.split('\n').length - 1;
  const long = DECISIONS.test(file) ? [] : paragraphsOf(text).filter(({ length }) => length > MOST_CHARACTERS);
  const padded = withoutCode(text).match(/^\|.*[^ |] {2,}\|/m) ?? [];
  const markers = text.match(/^(?:<{7}|>{7}) .*/m) ?? [];
  return [
    ...markers.map((marker) => `${file}: a conflict is not resolved: ${marker}`),
    ...padded.map((row) => `${file}: a row of a table is padded: ${row.slice(0, 60)}…`),
    ...(lines > MOST_LINES && !REFERENCE.includes(file)
      ? [`${file} has ${String(lines)} lines, more than ${String(MOST_LINES)}`]
      : []),
    ...long.map((each) => `${file}: a paragraph of ${String(each.length)} characters: ${each.slice(0, 60)}…`),
  ];
}

/** Returns what a link may lead to: slugs of headings, made as forges make them, and explicit anchors. */
function anchorsOf(text: string): ReadonlySet<string> {
  const headings = [...withoutCode(text).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => slugOf(heading));
  const explicit = [...text.matchAll(/<a id="([^"]+)">/g)].map(([, id = '']) => id);
  return new Set([...headings, ...explicit]);
}

function slugOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

function linksOf(text: string): string[] {
  const prose = withoutCode(text).replaceAll(/`[^`\n]*`/g, '');
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link);
}

/** Returns paragraphs and items of lists, each as one line; no tables, code and headings. */
function paragraphsOf(text: string): string[] {
  const blocks = withoutCode(text).split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )/);
  return blocks.map((block) => block.trim().replaceAll(/\s+/g, ' ')).filter((block) => !/^[|#<]/.test(block));
}

function withoutCode(text: string): string {
  return text.replaceAll(/^([ \t]*)```[^]*?^\1```$/gm, '');
}

if (import.meta.main) {
  const files = [...new Set(PAGES.flatMap((pattern) => globSync(pattern)))].filter((file) => !PARTS.test(file));
  const pages = files.map((file) => ({ file, text: readFileSync(file, 'utf8') }));
  const faults = faultsOf(pages, existsSync);
  for (const fault of faults) console.error(fault);
  if (faults.length > 0) process.exitCode = 1;
}
