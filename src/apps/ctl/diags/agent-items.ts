import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Sources } from '../doctor/sources.ts';
import type { DiagsItem } from './item.ts';

const ALL_CALLS = '{"last":256}';

/** Returns the state that the agent reports, and the files that it keeps on disk. */
export function agentItems({ context, places }: Sources): readonly DiagsItem[] {
  const { askAgent, machine } = context.ports;
  const page = (name: string): DiagsItem => ({
    path: `agent/${name}.txt`,
    gather: async (signal) => (await fetch(`http://${places.health}/${name}`, { signal })).text(),
  });
  const answer = (kind: 'show-calls' | 'show-network', path: string, text: string): DiagsItem => ({
    path,
    gather: async (signal) => askAgent(places.socket, { kind, text }, signal),
  });
  return [
    answer('show-network', 'agent/network.json', ''),
    answer('show-calls', 'agent/calls.json', ALL_CALLS),
    page('readyz'),
    page('metrics'),
    {
      path: 'state/journal.json',
      gather: async () => JSON.stringify(await sizesIn(join(machine.stateDir, 'journal'))),
    },
    { path: 'state/install.json', gather: async () => readFile(join(machine.stateDir, 'install.json'), 'utf8') },
  ];
}

/** Returns names and sizes of the files, never their content. */
async function sizesIn(folder: string): Promise<readonly object[]> {
  const names = (await readdir(folder)).sort();
  return Promise.all(
    names.map(async (name) => {
      const { size, mtime } = await stat(join(folder, name));
      return { name, sizeBytes: size, changedAt: mtime.toISOString() };
    }),
  );
}
