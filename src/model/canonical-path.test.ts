import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { canonicalPath } from './canonical-path.ts';

it.each([
  ['/', '/'],
  ['/items/1', '/items/1'],
  ['/items/?next=/../x', '/items/'],
  ['/caf%C3%A9', '/café'],
  ['/a%20b', '/a b'],
  ['/.well-known/x', '/.well-known/x'],
  ['/a..b/...', '/a..b/...'],
])('%s is the path %s', (target, path) => {
  expect(canonicalPath(target)).toBe(path);
});

it.each([
  ['', 'no path'],
  ['*', 'no path'],
  ['items', 'no path'],
  ['http://shop/items', 'an absolute form'],
  ['//a', 'an empty segment'],
  ['/a//', 'an empty segment'],
  ['/a/./b', 'a dot'],
  ['/a/..', 'two dots'],
  ['/public/../admin', 'two dots'],
  ['/public/%2e%2e/admin', 'encoded dots'],
  ['/a/.%2E/b', 'an encoded dot'],
  ['/a%2fb', 'an encoded slash'],
  ['/a%5Cb', 'an encoded backslash'],
  ['/a\\b', 'a backslash'],
  ['/a;x=1', 'a parameter'],
  ['/a%3bx', 'an encoded parameter'],
  ['/a%252fb', 'an encoding twice'],
  ['/a%00', 'NUL'],
  ['/a%0ab', 'a line feed'],
  ['/a%zz', 'no encoding'],
  ['/a%', 'no encoding'],
  ['/%ff', 'no UTF-8'],
  ['/%c0%af', 'an overlong slash'],
  ['/\ufffd', 'replaced bytes'],
  ['/a#b', 'a fragment'],
])('%s has %s, so no path is canonical', (target) => {
  expect(canonicalPath(target)).toBeUndefined();
});

it('a canonical path is its own when it is sent as it is', () => {
  const text = fc.string({ unit: fc.constantFrom('/', 'a', '.', '%2e', '%61', ';', '\\', 'é', '?', '%2F') });
  fc.assert(
    fc.property(text, (rest) => {
      const path = canonicalPath(`/${rest}`);
      const again = path === undefined ? undefined : canonicalPath(encodeURI(path));
      expect(again).toBe(path);
    }),
  );
});
