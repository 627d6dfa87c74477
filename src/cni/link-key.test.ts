import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { linkKeyIn } from './link-key.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'npl-key-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('the key of the node', () => {
  it('is made once, also by many processes at once, and only root can read it', async () => {
    const state = join(folder, 'state');
    const keys = await Promise.all(Array.from({ length: 20 }, async () => linkKeyIn(state)()));
    expect(new Set(keys).size).toBe(1);
    expect(keys[0]).toMatch(/^[0-9a-f]{64}$/);
    expect(readdirSync(state)).toEqual(['link-key']);
    expect(statSync(join(state, 'link-key')).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(state, 'link-key'), 'utf8')).toBe(`${keys[0] ?? ''}\n`);
  });

  it('is the same for processes that come while others are at each step of making it', async () => {
    for (let round = 0; round < 5; round += 1) {
      const state = join(folder, String(round));
      const asked: Promise<string>[] = [];
      for (let process = 0; process < 20; process += 1) {
        asked.push(linkKeyIn(state)());
        await setImmediate();
      }
      expect(new Set(await Promise.all(asked)).size).toBe(1);
    }
  });

  it('is replaced when it is lost or damaged, and another one each time', async () => {
    const first = await linkKeyIn(folder)();
    rmSync(join(folder, 'link-key'));
    const second = await linkKeyIn(folder)();
    writeFileSync(join(folder, 'link-key'), 'short\n');
    const third = await linkKeyIn(folder)();
    expect(new Set([first, second, third]).size).toBe(3);
    expect(await linkKeyIn(folder)()).toBe(third);
  });

  it('is one of each process where none can be kept', async () => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    const [one, other] = [linkKeyIn(file), linkKeyIn(file)];
    expect(await one()).toMatch(/^[0-9a-f]{64}$/);
    expect(await one()).toBe(await one());
    expect(await other()).not.toBe(await one());
  });
});
