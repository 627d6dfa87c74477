import { VERSION } from '../base/version.ts';
import { command, flag } from './command.ts';
import { withStore } from './connection.ts';
import type { Context, Status } from './ports.ts';

export const VERSION_COMMAND = command({
  path: ['version'],
  summary: 'Prints the version of the tool and of the cluster.',
  options: { client: flag('ask no datastore') },
  run: async (context, { options: { client } }) => version(context, client ? 'client' : 'both'),
});

/** Prints the version of the tool, always; then what the datastore tells, or fails. */
async function version(context: Context, which: 'client' | 'both'): Promise<Status> {
  const { io, signal } = context;
  io.stdout(`Client Version: ${VERSION}\n`);
  if (which === 'client') return 0;
  return withStore(context, async (store, { type }) => {
    await store.ping(signal);
    io.stdout('Cluster Version: unknown (no agent has registered yet)\n');
    io.stdout(`datastore: ${type} reachable\n`);
    return 0;
  });
}
