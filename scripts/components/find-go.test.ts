import { describe, expect, it } from 'vitest';
import { chooseGo, type GoCommand, parseGoVersion } from './find-go.ts';

const go = (path: string, ...version: [number, number]): GoCommand => ({ path, version });

describe('choosing a Go command', () => {
  it('takes the newest one, wherever it stands in PATH', () => {
    const old = go('/usr/bin/go', 1, 19);
    const current = go('/usr/local/go/bin/go', 1, 26);
    for (const commands of [
      [old, current],
      [current, old],
    ])
      expect(chooseGo(commands)).toBe(current);
  });

  it('takes 1.21, which fetches the toolchain a module asks for, and refuses 1.20 and Go 0', () => {
    const first = go('/usr/lib/go-1.21/bin/go', 1, 21);
    expect(chooseGo([go('/a', 1, 20), first, go('/b', 0, 99)])).toBe(first);
    expect(chooseGo([go('/a', 1, 20)])).toBeUndefined();
    expect(chooseGo([])).toBeUndefined();
  });
});

describe('reading the output of "go version"', () => {
  it.each([
    ['go version go1.26.8 linux/amd64', [1, 26]],
    ['go version go1.23 linux/arm64', [1, 23]],
    ['go version devel go1.27-abcdef linux/amd64', [1, 27]],
  ])('reads %s', (text, version) => {
    expect(parseGoVersion(text)).toEqual(version);
  });

  it('has no version for the output of another program', () => {
    expect(parseGoVersion('gccgo (Debian) 12')).toBeUndefined();
  });
});
