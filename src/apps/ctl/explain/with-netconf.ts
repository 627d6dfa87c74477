import type { Store } from '../../../datastore/store.ts';
import type { Datastore, OrchSettings } from '../../../config/connection.ts';
import type { OrchReader } from '../../../cni/orch-reader.ts';
import { readConnection, withConnection } from '../connection.ts';
import type { Context } from '../ports.ts';
import type { FoundNetconf } from './find-netconf.ts';

/** Opens the datastore of the command's connection, which the network configuration of `--netconf` may name. */
export async function withStoreOf<T>(
  context: Context,
  given: FoundNetconf | undefined,
  use: (store: Store, datastore: Datastore) => Promise<T>,
): Promise<T> {
  const netconf = given === undefined ? undefined : { file: given.file, datastore: given.config.datastore };
  return withConnection(context, { connection: await readConnection(context, { netconf }), access: 'read' }, use);
}

/** Opens the Kubernetes API with the access of the datastore if that is Kubernetes, or else with `own`. */
export function openOrchOf({ ports }: Context, datastore: Datastore, own: OrchSettings): OrchReader & AsyncDisposable {
  return ports.plugin.openOrch(datastore.type === 'orch' ? datastore.orch : own);
}
