import { globSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { extentOf, LONG_FILES, NOT_EVERYDAY, partOf, TWO_MODES } from '../../test/runs.ts';
import { HAVE_PASSED, SOAK_CASES } from '../../test/soak-cases.ts';

const files = globSync('test/{contract,e2e}/*.test.ts').map((path) => path.slice('test/'.length, -'.test.ts'.length));
const fileOf = (name: string): string => name.split(':')[0] ?? '';
const arguments_ = SOAK_CASES.map(({ args }) => args.join(' '));

describe('what runs where', () => {
  it('names only files that exist', () => {
    const inModes = Object.keys(TWO_MODES).map((name) => `e2e/${name}`);
    const named = [...Object.keys(NOT_EVERYDAY).map(fileOf), ...inModes, ...LONG_FILES];
    expect(named.filter((name) => !files.includes(name))).toEqual([]);
  });

  it('has a case of the soak for everything that `make test` leaves out', () => {
    const left = Object.keys(NOT_EVERYDAY).map(fileOf);
    expect(left.filter((name) => !arguments_.some((args) => args.includes(`test/${name}.test.ts`)))).toEqual([]);
    const other = Object.entries(TWO_MODES).filter(([, mode]) => mode !== 'both');
    const isThere = ([name, mode]: readonly [string, string]): boolean =>
      arguments_.includes(`--project=${mode === 'agent' ? 'e2e' : 'e2e-agent'} test/e2e/${name}.test.ts`);
    expect(other.filter((each) => !isThere(each))).toEqual([]);
  });

  it('gives each case of the soak a name of its own, and at most ten minutes beside what it waits on purpose', () => {
    expect(new Set(SOAK_CASES.map(({ name }) => name)).size).toBe(SOAK_CASES.length);
    expect(SOAK_CASES.filter(({ minutes, waits = 0 }) => minutes - waits > 10)).toEqual([]);
    expect([...HAVE_PASSED].filter((each) => !SOAK_CASES.some(({ name }) => name === each))).toEqual([]);
  });

  it('shares a list among parts so that each item is in exactly one', () => {
    const items = Array.from({ length: 11 }, (_, index) => index);
    const parts = ['1/3', '2/3', '3/3'].map((part) => partOf(items, part));
    expect(parts.flat().toSorted((a, b) => a - b)).toEqual(items);
    expect(partOf(items, undefined)).toEqual(items);
  });

  it.each(['0/2', '3/2', '1', 'x/2', ''])('refuses the part "%s"', (part) => {
    expect(() => partOf([1], part)).toThrow(`NETPLUG_PART is "${part}"`);
  });

  it('refuses an extent that does not exist', () => {
    expect(() => extentOf('weekly')).toThrow('NETPLUG_TESTS is "weekly"; allowed are everyday and soak');
  });
});
