import { expect, it } from 'vitest';
import { withFolders } from './entry.ts';

it('adds each folder once, keeps the mode of a declared one, and refuses a path that is there twice', () => {
  const file = { path: 'usr/bin/netplug', mode: 0o755, source: '/x' };
  const tmp = { path: 'tmp', mode: 0o1777 };
  expect(withFolders([file, tmp, { path: 'tmp/file', mode: 0o644, text: '' }])).toEqual([
    tmp,
    { path: 'tmp/file', mode: 0o644, text: '' },
    { path: 'usr', mode: 0o755 },
    { path: 'usr/bin', mode: 0o755 },
    file,
  ]);
  expect(() => withFolders([file, file])).toThrow('usr/bin/netplug is in a layer twice');
});
