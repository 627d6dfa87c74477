import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { evaluateSelector } from '../model/selector.ts';
import { parseSelector, type Selector } from '../model/selector-parser.ts';
import { SelectorIndex } from './selector-index.ts';

const label = fc.constantFrom('app', 'team', 'netplug/namespace', 'netplug/orchestrator', 'pcns.team');
const value = fc.constantFrom('a', 'b', '');
const { selector } = fc.letrec<{ selector: Selector }>((tie) => ({
  selector: fc.oneof(
    { maxDepth: 3 },
    fc.record({ kind: fc.constantFrom('==', '!=', 'contains', 'starts with', 'ends with'), label, value }),
    fc.record({ kind: fc.constantFrom('in', 'not in'), label, values: fc.uniqueArray(value) }),
    fc.record({ kind: fc.constant('has'), label }),
    fc.record({ kind: fc.constantFrom('all', 'global') }),
    fc.record({ kind: fc.constant('not'), of: tie('selector') }),
    fc.record({ kind: fc.constantFrom('and', 'or'), of: fc.array(tie('selector'), { minLength: 2, maxLength: 3 }) }),
  ) as fc.Arbitrary<Selector>,
}));
const labels = fc.dictionary(label, value);

function parsed(text: string): Selector {
  const read = parseSelector(text);
  if ('error' in read) throw new Error(read.error);
  return read.selector;
}

describe('an index of selectors', () => {
  it('takes a set that has more values than a call can have arguments', () => {
    const index = new SelectorIndex<string>();
    const values = Array.from({ length: 1_000_000 }, (_, each) => String(each));
    index.add({ kind: 'and', of: [{ kind: 'in', label: 'app', values }, parsed("team == 'a'")] }, 'long');
    expect([...index.candidates({ app: '7', team: 'a' })]).toEqual(['long']);
  });

  it('finds every selector that matches the labels', () => {
    fc.assert(
      fc.property(fc.array(selector, { maxLength: 6 }), labels, (selectors, own) => {
        const index = new SelectorIndex<number>();
        for (const [id, each] of selectors.entries()) index.add(each, id);
        const found = index.candidates(own);
        const matching = selectors.flatMap((each, id) => (evaluateSelector(each, own) ? [id] : []));
        expect([...found]).toEqual(expect.arrayContaining(matching));
      }),
    );
  });

  it('finds nothing that was removed', () => {
    fc.assert(
      fc.property(fc.array(selector, { maxLength: 6 }), labels, (selectors, own) => {
        const index = new SelectorIndex<number>();
        for (const [id, each] of selectors.entries()) index.add(each, id);
        for (const [id, each] of selectors.entries()) index.remove(each, id);
        expect(index.candidates(own).size).toBe(0);
      }),
    );
  });

  it.each([
    ["netplug/orchestrator == 'orch' && netplug/namespace == 'x' && app == 'b'"],
    ["has(app) && app == 'b'"],
    ["app == 'b' || app in { 'c', 'd' }"],
    ["netplug/namespace == 'y'"],
  ])('passes over %s for a pod that it cannot match', (text) => {
    const index = new SelectorIndex<number>();
    index.add(parsed(text), 1);
    const own = { 'netplug/orchestrator': 'orch', 'netplug/namespace': 'x', app: 'a' };
    expect(index.candidates(own).size).toBe(0);
  });
});
