import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalSelector, evaluateSelector, matchesSelector } from './selector.ts';
import { negate, parseSelector, type Selector } from './selector-parser.ts';

const label = fc.constantFrom('a', 'b', 'in', 'has', 'all', 'x.y/z-1', 'not');
const value = fc.constantFrom('', 'v', 'w', 'vw', `it's`, 'say "so"', 'a && b');
const { selector } = fc.letrec<{ selector: Selector }>((tie) => ({
  selector: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<Selector>({ kind: 'all' }, { kind: 'global' }),
    fc.record({ kind: fc.constant('has' as const), label }),
    fc.record({ kind: fc.constantFrom('==', '!=', 'contains', 'starts with', 'ends with'), label, value }),
    fc.record({
      kind: fc.constantFrom('in', 'not in'),
      label,
      values: fc.uniqueArray(value).map((values) => values.sort()),
    }),
    fc.record({ kind: fc.constantFrom('and', 'or'), of: fc.array(tie('selector'), { minLength: 2, maxLength: 3 }) }),
    tie('selector').map(negate),
  ),
}));
const labels = fc.dictionary(label, value);

function read(text: string): Selector {
  const parsed = parseSelector(text);
  if ('error' in parsed) throw new Error(`${parsed.error} at ${String(parsed.at)}`);
  return parsed.selector;
}

describe('selectors', () => {
  it('parse from their canonical text to the same selector', () => {
    fc.assert(
      fc.property(selector, (each) => {
        expect(read(canonicalSelector(each))).toEqual(each);
      }),
    );
  });

  it('obey De Morgan', () => {
    fc.assert(
      fc.property(selector, selector, labels, (a, b, given) => {
        const left = evaluateSelector(negate({ kind: 'and', of: [a, b] }), given);
        expect(left).toBe(evaluateSelector({ kind: 'or', of: [negate(a), negate(b)] }, given));
      }),
    );
  });

  it('never throw for arbitrary text', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[ab!()&|={}'",]*$/)), (text) => {
        expect(parseSelector(text)).toBeDefined();
      }),
    );
    expect(parseSelector('('.repeat(100_000))).toHaveProperty('error');
    expect(parseSelector('!'.repeat(100_000))).toHaveProperty('error');
  });

  it.each([
    ['', 'all()'],
    [' \t', 'all()'],
    ['all( )', 'all()'],
    ['global()', 'global()'],
    ["a=='b'", 'a == "b"'],
    ['!!a == "b"', 'a == "b"'],
    ['!!!has( a )', '!has(a)'],
    ['!(!has(a))', 'has(a)'],
    ["a in {'y','x','x',}", 'a in {"x", "y"}'],
    ['a not  in {}', 'a not in {}'],
    ["a startswith 'x'", 'a starts with "x"'],
    ["in in {'in'}", 'in in {"in"}'],
    ["all == 'x'", 'all == "x"'],
    [`a == 'b"c'`, `a == 'b"c'`],
    ["a == 'x' || b == 'y' && has(c)", '(a == "x" || (b == "y" && has(c)))'],
    ["(a == 'x' || b == 'y') && has(c)", '((a == "x" || b == "y") && has(c))'],
  ])('writes %j as %s', (text, canonical) => {
    expect(canonicalSelector(read(text))).toBe(canonical);
  });

  it.each([
    ["a == 'b", 5, 'not closed'],
    ['a', 1, 'expected an operator'],
    ['a = "b"', 2, 'expected an operator'],
    ['a == b', 5, 'a string in quotes'],
    ["a in 'b'", 5, 'expected "{"'],
    ["a in {'b' 'c'}", 10, 'expected "," or "}"'],
    ["a == 'b' c", 9, 'or the end'],
    ["a == 'b' &&", 11, 'found the end'],
    ["(a == 'b'", 9, 'expected ")"'],
    ["a == 'b'\n", 8, 'or the end'],
    ['has()', 4, 'a label name'],
    ['all ()', 4, 'expected an operator'],
    [`${'x'.repeat(513)} == 'a'`, 0, 'longer than 512'],
  ])('refuses %j at %i', (text, at, error) => {
    expect(parseSelector(text)).toMatchObject({ at, error: expect.stringContaining(error) });
  });

  it.each([
    ["a == 'x'", false],
    ["a != 'x'", true],
    ["a in {'x'}", false],
    ["a not in {'x'}", true],
    ["a contains 'x'", false],
    ["a contains ''", false],
    ["a starts with ''", false],
    ["a ends with ''", false],
    ['has(a)', false],
    ['!has(a)', true],
    ['all()', true],
  ])('evaluate %s to %s when the label is absent', (text, verdict) => {
    expect(matchesSelector(text, { b: 'x' })).toBe(verdict);
  });

  it('find a label with an empty value', () => {
    expect(matchesSelector('has(upgrade)', { upgrade: '' })).toBe(true);
  });

  it('ignore inherited properties of the labels object', () => {
    expect(matchesSelector('has(toString)', {})).toBe(false);
  });

  it('match nothing when they are invalid', () => {
    expect(matchesSelector('a ==', {})).toBe(false);
  });
});
