import { describe, expect, it } from 'vitest';
import { applyJsonPatch } from './json-patch.ts';

/** Appendix A of RFC 6902. */
const EXAMPLES: readonly [name: string, document: unknown, patch: unknown, result: unknown][] = [
  ['A.1', { foo: 'bar' }, [{ op: 'add', path: '/baz', value: 'qux' }], { baz: 'qux', foo: 'bar' }],
  ['A.2', { foo: ['bar', 'baz'] }, [{ op: 'add', path: '/foo/1', value: 'qux' }], { foo: ['bar', 'qux', 'baz'] }],
  ['A.3', { baz: 'qux', foo: 'bar' }, [{ op: 'remove', path: '/baz' }], { foo: 'bar' }],
  ['A.4', { foo: ['bar', 'qux', 'baz'] }, [{ op: 'remove', path: '/foo/1' }], { foo: ['bar', 'baz'] }],
  ['A.5', { baz: 'qux', foo: 'bar' }, [{ op: 'replace', path: '/baz', value: 'boo' }], { baz: 'boo', foo: 'bar' }],
  [
    'A.6',
    { foo: { bar: 'baz', waldo: 'fred' }, qux: { corge: 'grault' } },
    [{ op: 'move', from: '/foo/waldo', path: '/qux/thud' }],
    { foo: { bar: 'baz' }, qux: { corge: 'grault', thud: 'fred' } },
  ],
  [
    'A.7',
    { foo: ['all', 'grass', 'cows', 'eat'] },
    [{ op: 'move', from: '/foo/1', path: '/foo/3' }],
    { foo: ['all', 'cows', 'eat', 'grass'] },
  ],
  [
    'A.8',
    { baz: 'qux', foo: ['a', 2, 'c'] },
    [
      { op: 'test', path: '/baz', value: 'qux' },
      { op: 'test', path: '/foo/1', value: 2 },
    ],
    { baz: 'qux', foo: ['a', 2, 'c'] },
  ],
  [
    'A.10',
    { foo: 'bar' },
    [{ op: 'add', path: '/child', value: { grandchild: {} } }],
    { foo: 'bar', child: { grandchild: {} } },
  ],
  ['A.11', { foo: 'bar' }, [{ op: 'add', path: '/baz', value: 'qux', xyz: 123 }], { foo: 'bar', baz: 'qux' }],
  ['A.14', { '/': 9, '~1': 10 }, [{ op: 'test', path: '/~01', value: 10 }], { '/': 9, '~1': 10 }],
  ['A.16', { foo: ['bar'] }, [{ op: 'add', path: '/foo/-', value: ['abc', 'def'] }], { foo: ['bar', ['abc', 'def']] }],
  ['the whole document', { foo: 1 }, [{ op: 'replace', path: '', value: { bar: 2 } }], { bar: 2 }],
  ['a copy', { a: { b: [1] } }, [{ op: 'copy', from: '/a', path: '/c' }], { a: { b: [1] }, c: { b: [1] } }],
];

const REFUSALS: readonly [name: string, document: unknown, patch: unknown, message: string][] = [
  [
    'A.9',
    { baz: 'qux' },
    [{ op: 'test', path: '/baz', value: 'bar' }],
    '[0] test: /baz is "qux" (string), not "bar" (string)',
  ],
  [
    'A.12',
    { foo: 'bar' },
    [{ op: 'add', path: '/baz/bat', value: 'qux' }],
    '[0] add: what /baz/bat is in does not exist',
  ],
  ['A.13', {}, [{ op: 'increase', path: '/a' }], '[0]: op: found "increase" (string), allowed is "add"'],
  ['A.15', { '/': 9, '~1': 10 }, [{ op: 'test', path: '/~01', value: '10' }], 'is 10 (number), not "10" (string)'],
  ['no array', {}, { op: 'add' }, 'allowed is an array of operations'],
  ['no operation', {}, [{ op: 'test', path: '/a', value: 1 }, 5], '[0] test: /a does not exist'],
  ['no value', {}, [{ op: 'add', path: '/a' }], '[0] add: value: missing'],
  ['no pointer', {}, [{ op: 'add', path: 'a', value: 1 }], 'path: "a" does not begin with "/"'],
  ['a lone ~', {}, [{ op: 'add', path: '/a~2', value: 1 }], 'neither "~0" nor "~1"'],
  ['beyond the end', { a: [1] }, [{ op: 'add', path: '/a/2', value: 1 }], '/a/2 is no place in an array of 1'],
  ['no index', { a: [1] }, [{ op: 'replace', path: '/a/length', value: 1 }], '/a/length does not exist'],
  ['a leading zero', { a: [1] }, [{ op: 'remove', path: '/a/00' }], '/a/00 does not exist'],
  ['into itself', { a: { b: {} } }, [{ op: 'move', from: '/a', path: '/a/b/c' }], '/a cannot be moved into itself'],
  ['what is inherited', {}, [{ op: 'remove', path: '/toString' }], '/toString does not exist'],
];

describe('a JSON patch', () => {
  it.each(EXAMPLES)('does what RFC 6902 says: %s', (_, document, patch, result) => {
    const before = structuredClone(document);
    expect(applyJsonPatch(document, patch)).toEqual(result);
    expect(document).toEqual(before);
  });

  it.each(REFUSALS)('is refused with its operation: %s', (_, document, patch, message) => {
    expect(() => applyJsonPatch(document, patch)).toThrow(message);
  });

  it('cannot reach the prototype of all objects', () => {
    const patched = applyJsonPatch({}, [{ op: 'add', path: '/__proto__', value: { polluted: true } }]);
    expect(Object.keys(patched as object)).toEqual(['__proto__']);
    expect('polluted' in {}).toBe(false);
  });
});
