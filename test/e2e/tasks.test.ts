// Every command of these pages, run in its order; a page must show what they print, and how they end (`vitest -u` records it).
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import { runPage, steady } from '../support/doc-session.ts';
import { taskScenes } from '../support/task-scenes.ts';

it.each(['docs/tasks.md', 'README.md'])('%s shows what its commands print', { timeout: 300_000 }, async (name) => {
  const page = resolve(import.meta.dirname, '../..', name);
  await using scenes = taskScenes();
  const shown = await runPage(readFileSync(page, 'utf8'), {
    set: async (scene) => scenes.set(scene),
    type: async (command) => scenes.type(command),
    steady,
  });
  await expect(shown).toMatchFileSnapshot(page);
});
