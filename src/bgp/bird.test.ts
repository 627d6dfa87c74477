import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { systemClock } from '../base/clock.ts';
import { Bird } from './bird.ts';

it('starts in graceful restart after a graceful exit, also when the first start fails', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'netplug-bird-'));
  const bird = new Bird({ places: { folder: folder.path, program: 'external' }, clock: systemClock });
  expect(await bird.prepareStart()).not.toContain('-R');
  await bird.exitGracefully(new AbortController().signal);
  expect(await bird.prepareStart()).toContain('-R');
  expect(await bird.prepareStart()).toContain('-R');
});
