import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { HANG_MS, SECONDS, SEED } from './driver.ts';

const NATIVE = join(import.meta.dirname, '../../native');
const SANITIZERS = ['-fsanitize=address,undefined', '-fno-sanitize-recover=all', '-Wno-unused-function'];

it(
  'the shim reads whatever an agent says without fault, and never hangs',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'netplug-fuzz-'));
    try {
      const program = join(folder, 'shim-fuzz');
      const sources = ['shim-fuzz.c', 'standalone.c', 'fuzz-loop.c'].map((name) => join(NATIVE, name));
      execFileSync('gcc', ['-std=gnu11', '-g', '-O1', ...SANITIZERS, '-o', program, ...sources]);
      const args = [String(SECONDS), ...(SEED === undefined ? [] : [SEED])];
      const env = { ...process.env, ASAN_OPTIONS: 'max_allocation_size_mb=64' };
      // What fails says seed, round and input on its standard error, which is part of the message.
      const { stdout } = await promisify(execFile)(program, args, { env, timeout: HANG_MS });
      expect(Number(stdout.split(' ')[0])).toBeGreaterThan(1000);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
  HANG_MS,
);
