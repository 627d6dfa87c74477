import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock, virtualClock } from '../base/clock.ts';
import { formatAddress } from '../net/address.ts';
import { freeBlankFiles } from './blank-files.ts';

const BOOT = Date.parse('2026-12-01T08:00:00Z');
const never = new AbortController().signal;

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'host-local-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

async function write(name: string, text: string, atMs: number): Promise<void> {
  await writeFile(join(folder, name), text);
  await utimes(join(folder, name), atMs / 1000, atMs / 1000);
}

describe('files of host-local that are blank', () => {
  it('go when they are older than the boot, and no other file does', async () => {
    await write('10.0.0.2', '', BOOT - 1000);
    await write('fd00::2', '\0\0\0', BOOT - 1000);
    await write('10.0.0.3', '', BOOT + 1000);
    await write('10.0.0.4', 'c1\r\neth0', BOOT - 1000);
    await write('last_reserved_ip.0', '', BOOT - 1000);
    const freed = await freeBlankFiles(
      folder,
      { clock: virtualClock(), bootedAtMs: () => BOOT, tryLock: () => true },
      never,
    );
    expect(freed.map(formatAddress).sort()).toEqual(['10.0.0.2', 'fd00::2']);
    expect((await readdir(folder)).sort()).toEqual(['10.0.0.3', '10.0.0.4', 'last_reserved_ip.0', 'lock']);
  });

  it('stay when host-local has used their address while it held its lock', async () => {
    await write('10.0.0.2', '', BOOT - 1000);
    let tries = 0;
    const clock = {
      ...systemClock,
      sleep: async () => write('10.0.0.2', 'c2\r\neth0', BOOT + 1000),
    };
    const freed = await freeBlankFiles(
      folder,
      { clock, bootedAtMs: () => BOOT, tryLock: () => (tries += 1) > 1 },
      never,
    );
    expect(freed).toEqual([]);
    expect(await readdir(folder)).toContain('10.0.0.2');
  });
});
