import { VERSION } from '../base/version.ts';
import { withStore } from './connection.ts';
import type { Job } from './job.ts';
import type { Context, Status } from './ports.ts';

/** Prints the version of the tool, always; then what the datastore tells, or fails. */
export async function version(context: Context, { isClientOnly }: Extract<Job, { verb: 'version' }>): Promise<Status> {
  const { io, signal } = context;
  io.stdout(`Client Version: ${VERSION}\n`);
  if (isClientOnly) return 0;
  return withStore(context, async (store, { type }) => {
    await store.ping(signal);
    io.stdout('Cluster Version: unknown (no agent has registered yet)\n');
    io.stdout(`datastore: ${type} reachable\n`);
    return 0;
  });
}
