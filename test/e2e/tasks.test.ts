// Every command of these pages, run in its order; a page must show what they print, and how they end (`vitest -u` records it).
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import { readPage, renderSession, steady, type Typed } from '../support/doc-session.ts';
import { taskScenes } from '../support/task-scenes.ts';

it.each(['docs/tasks.md', 'README.md'])('%s shows what its commands print', { timeout: 300_000 }, async (name) => {
  const page = resolve(import.meta.dirname, '../..', name);
  await using scenes = taskScenes();
  const shown: string[] = [];
  for (const part of readPage(readFileSync(page, 'utf8'))) {
    if (part.kind === 'text') {
      for (const name of part.scenes) await scenes.set(name);
      shown.push(part.text);
    } else {
      const ran: (Typed & { command: string })[] = [];
      for (const command of part.commands) {
        const { output, status } = await scenes.type(command);
        ran.push({ command, output: steady(output), status });
      }
      shown.push(renderSession(ran));
    }
  }
  await expect(shown.join('')).toMatchFileSnapshot(page);
});
