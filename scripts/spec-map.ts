// The rules of docs/spec-map.md, and what is wrong with them.
import type { Sentence } from './specification.ts';

/** A rule with the sentences that it comes from, where it is decided, and what proves it. */
export interface Rule {
  readonly id: string;
  readonly sentences: readonly string[];
  /** Files, each with `#` and a name that it declares unless it is no source. */
  readonly deciders: readonly string[];
  readonly tests: readonly string[];
}

export interface SpecMap {
  readonly rules: readonly Rule[];
  /** Names of sentences that state no rule. */
  readonly noRule: readonly string[];
  /** Lines of tables that are neither. */
  readonly malformed: readonly string[];
}

export interface MapSources {
  /** Undefined where the specification is not at hand. */
  readonly sentences: readonly Sentence[] | undefined;
  readonly textOf: (file: string) => string | undefined;
  /** The text of every file of tests. */
  readonly tests: ReadonlyMap<string, string>;
}

export function parseMap(page: string): SpecMap {
  const rows = page
    .split('\n')
    .filter((line) => line.startsWith('|') && !/^\|[\s:|-]+\|$/.test(line))
    .map((line) => ({
      line,
      cells: line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    }))
    .filter(({ cells: [first] }) => first !== 'id' && first !== 'sentences');
  const rules = rows.flatMap(({ cells: [id = '', names = '', , deciders = '', tests = ''], cells }) =>
    cells.length === 5 ? [{ id, sentences: namesIn(names), deciders: quoted(deciders), tests: quoted(tests) }] : [],
  );
  const noRule = rows.flatMap(({ cells: [names = ''], cells }) => (cells.length === 2 ? namesIn(names) : []));
  const malformed = rows.filter(({ cells }) => cells.length !== 5 && cells.length !== 2).map(({ line }) => line);
  return { rules, noRule, malformed };
}

/** Returns a line for each fault of the map, its files and its tests; none for a sound map. */
export function mapFaults(map: SpecMap, sources: MapSources): readonly string[] {
  const { rules, malformed } = map;
  const ids = rules.map(({ id }) => id);
  const proven = new Set([...sources.tests.values()].flatMap(idsInTitles));
  return [
    ...malformed.map((line) => `not a row of the map: ${line}`),
    ...rules.flatMap((rule) => [...deciderFaults(rule, sources), ...testFaults(rule, sources)]),
    ...ids.filter((id, index) => ids.indexOf(id) !== index).map((id) => `${id}: listed twice`),
    ...[...proven].filter((id) => !ids.includes(id)).map((id) => `${id}: a test title names it, the map does not`),
    ...(sources.sentences === undefined ? [] : sentenceFaults(map, sources.sentences)),
    ...(ids.length === 0 || proven.size === 0 ? ['saw no rules or no tests: the check itself is broken'] : []),
  ];
}

function sentenceFaults({ rules, noRule }: SpecMap, sentences: readonly Sentence[]): readonly string[] {
  const named = [...rules, { id: 'no rule', sentences: noRule }].flatMap(({ id, sentences: names }) =>
    names.map((name) => ({ name, by: id })),
  );
  const byPlace = new Map(sentences.map((sentence) => [sentence.place, sentence]));
  const places = new Set(named.map(({ name }) => name.split(' ')[0]));
  return [
    ...sentences
      .filter(({ place }) => !places.has(place))
      .map(({ place, hash, text }) => `sentence ${place} ${hash} has no row: ${text.slice(0, 80)}`),
    ...named.flatMap(({ name, by }) => {
      const [place = '', hash] = name.split(' ');
      const now = byPlace.get(place);
      if (now === undefined) return [`${by}: the specification has no sentence ${place}`];
      return now.hash === hash ? [] : [`${by}: sentence ${place} has changed; read it again, it is now ${now.hash}`];
    }),
  ];
}

function deciderFaults({ id, deciders }: Rule, { textOf }: MapSources): readonly string[] {
  if (deciders.length === 0) return [`${id}: names no function that decides`];
  return deciders.flatMap((decider) => {
    const [file = '', name] = decider.split('#');
    const text = textOf(file);
    if (text === undefined) return [`${id}: there is no file "${file}"`];
    if (name === undefined) return file.endsWith('.ts') ? [`${id}: names no function of "${file}"`] : [];
    return declares(text, name) ? [] : [`${id}: "${file}" declares no "${name}"`];
  });
}

function declares(text: string, name: string): boolean {
  return new RegExp(`^(export )?(async )?(function\\*?|const|class) ${name}\\b`, 'm').test(text);
}

function testFaults({ id, tests: files }: Rule, { tests }: MapSources): readonly string[] {
  if (files.length === 0) return [`${id}: names no test`];
  return files.flatMap((file) => {
    const text = tests.get(file);
    if (text === undefined) return [`${id}: there is no file of tests "${file}"`];
    return idsInTitles(text).includes(id) ? [] : [`${id}: no test title in "${file}" carries [${id}]`];
  });
}

function idsInTitles(text: string): readonly string[] {
  const titles = [...text.matchAll(/\b(?:it|test|describe)(?:\.\w+(?:<[^;]*?>)?\([^;]*?\))?\(\s*(['"`])(.*?)\1/gs)];
  return titles.flatMap(([, , title = '']) => [...title.matchAll(/\[([a-z0-9-]+)\]/g)].map(([, id = '']) => id));
}

function namesIn(cell: string): readonly string[] {
  return cell === 'own' ? [] : cell.split(', ');
}

function quoted(cell: string): readonly string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text);
}
