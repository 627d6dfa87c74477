import { VERSION } from '../../base/version.ts';
import { isLocked } from '../../model/cluster-information.ts';
import { findCluster } from './admit.ts';
import { command, flagOption } from './command.ts';
import { withStore } from './connection.ts';
import type { Context, Status } from './ports.ts';

export const VERSION_COMMAND = command({
  path: ['version'],
  summary: 'Prints the version of the tool and of the cluster.',
  options: { client: flagOption('print only the version of the tool') },
  run: async (context, { options: { client } }) => version(context, client ? 'client' : 'both'),
});

/** Prints the version of the tool, then that of the cluster. Fails when the datastore is unavailable. */
async function version(context: Context, which: 'client' | 'both'): Promise<Status> {
  const { io, signal } = context;
  io.stdout(`Client Version: ${VERSION}\n`);
  if (which === 'client') return 0;
  return withStore(context, 'ask-version', async (store, { type }) => {
    const cluster = await findCluster(store, signal);
    const { netplugVersion = 'unknown (no agent has registered yet)', clusterType = 'unknown' } = cluster?.spec ?? {};
    io.stdout(`Cluster Version: ${netplugVersion}\n`);
    io.stdout(`Cluster Type: ${clusterType}\n`);
    io.stdout(`datastore: ${type} reachable${isLocked(cluster) ? ', locked' : ''}\n`);
    return 0;
  });
}
