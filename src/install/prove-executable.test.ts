import { mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { systemClock } from '../base/clock.ts';
import { proveExecutable } from './prove-executable.ts';

it('waits for another process that still has the program open for writing', async () => {
  const { signal } = new AbortController();
  const folder = await mkdtemp(join(tmpdir(), 'netplug-prove-'));
  try {
    const program = join(folder, 'netplug-standalone');
    await writeFile(program, '#!/bin/sh\necho \'{"supportedVersions":["1.1.0"]}\'\n', { mode: 0o755 });
    const writer = await open(program, 'r+');
    let isClosed = false;
    const close = async (): Promise<void> => {
      await systemClock.sleep(200, signal);
      isClosed = true;
      await writer.close();
    };
    const closing = close();
    await proveExecutable(program, 'own-namespace', signal);
    expect(isClosed).toBe(true);
    await closing;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
