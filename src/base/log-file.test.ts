import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { logFile } from './log-file.ts';

const DAY_MS = 86_400_000;
let folder = '';
let file = '';

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'netplug-log-'));
  file = join(folder, 'deep', 'cni.log');
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

const rotated = (): string[] =>
  readdirSync(join(folder, 'deep'))
    .filter((name) => name.startsWith('cni.log.') && !name.endsWith('.lock'))
    .sort();

describe('the log file', () => {
  it('is created with its folders and rotated at the maximum size [nc-logsize]', () => {
    const log = logFile(file, { maxSizeBytes: 100, maxAgeMs: DAY_MS, maxCount: 10 }, () => 1000);
    for (let line = 0; line < 5; line += 1) log(`${'x'.repeat(39)}\n`);
    expect(statSync(file).size).toBe(40);
    expect(rotated()).toHaveLength(2);
  });

  it('keeps at most the given number of rotated files, the newest [nc-logcount]', () => {
    let now = 1000;
    const log = logFile(file, { maxSizeBytes: 10, maxAgeMs: DAY_MS, maxCount: 3 }, () => (now += 1000));
    for (let line = 0; line < 9; line += 1) log(`line ${String(line)}\n`);
    expect(rotated().map((name) => readFileSync(join(folder, 'deep', name), 'utf8'))).toEqual([
      'line 5\n',
      'line 6\n',
      'line 7\n',
    ]);
  });

  it('removes rotated files older than the maximum age [nc-logage]', () => {
    const log = logFile(file, { maxSizeBytes: 10, maxAgeMs: 2 * DAY_MS, maxCount: 10 }, Date.now);
    log('123456789\n');
    log('123456789\n');
    const [old = ''] = rotated();
    const longAgo = (Date.now() - 3 * DAY_MS) / 1000;
    utimesSync(join(folder, 'deep', old), longAgo, longAgo);
    log('123456789\n');
    expect(rotated()).toHaveLength(1);
    expect(rotated()).not.toContain(old);
  });

  it('removes the stale lock of a process that was killed while rotating', () => {
    const log = logFile(file, { maxSizeBytes: 10, maxAgeMs: DAY_MS, maxCount: 10 }, Date.now);
    log('123456789\n');
    writeFileSync(`${file}.lock`, '');
    utimesSync(`${file}.lock`, 1, 1);
    log('goes to the old file\n');
    log('123456789\n');
    expect(rotated()).toHaveLength(1);
  });

  it('does not throw when it cannot be written', () => {
    writeFileSync(join(folder, 'deep'), 'a file where a folder should be');
    expect(() => {
      logFile(file, { maxSizeBytes: 10, maxAgeMs: DAY_MS, maxCount: 1 }, Date.now)('lost\n');
      logFile('/proc/nowhere/at/all', { maxSizeBytes: 10, maxAgeMs: DAY_MS, maxCount: 1 }, Date.now)('lost\n');
      logFile('/dev/full', { maxSizeBytes: 10, maxAgeMs: DAY_MS, maxCount: 1 }, Date.now)('lost\n');
    }).not.toThrow();
    rmSync(join(folder, 'deep'));
    writeFileSync(join(folder, 'x'), '');
  });

  it('writes every line whole when 32 processes write at once', async () => {
    const script = `
      import { logFile } from ${JSON.stringify(join(import.meta.dirname, 'log-file.ts'))};
      const log = logFile(${JSON.stringify(file)}, { maxSizeBytes: 100_000, maxAgeMs: 1e12, maxCount: 1000 }, Date.now);
      for (let line = 0; line < 250; line += 1) log(process.argv[1] + ' ' + line + ' ' + 'x'.repeat(60) + '\\n');`;
    const writers = Array.from({ length: 32 }, (_, index) =>
      spawn(process.execPath, ['--input-type=module', '-e', script, `writer${String(index)}`], { stdio: 'inherit' }),
    );
    for (const [status] of await Promise.all(writers.map(async (writer) => once(writer, 'exit'))))
      expect(status).toBe(0);
    const files = [...rotated(), 'cni.log'].map((name) => join(folder, 'deep', name));
    const lines = files.flatMap((path) => readFileSync(path, 'utf8').split('\n').slice(0, -1));
    expect(lines.every((line) => /^writer\d+ \d+ x{60}$/.test(line))).toBe(true);
    expect(new Set(lines).size).toBe(32 * 250);
    // A process that does not have the lock keeps writing to the old file during a rotation.
    for (const path of files) expect(statSync(path).size).toBeLessThan(200_000);
  }, 240_000);
});
