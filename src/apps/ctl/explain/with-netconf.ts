import type { Store } from '../../../datastore/store.ts';
import type { Datastore, OrchSettings } from '../../../config/connection.ts';
import type { OrchReader } from '../../../cni/orch-reader.ts';
import { hasConnection, openAdmitted, withStore } from '../connection.ts';
import type { Context } from '../ports.ts';
import type { FoundNetconf } from './find-netconf.ts';

/** Opens the datastore of the command's connection, or else that of the network configuration. */
export async function withStoreOf<T>(
  context: Context,
  netconf: FoundNetconf | undefined,
  use: (store: Store, datastore: Datastore) => Promise<T>,
): Promise<T> {
  if (netconf === undefined || hasConnection(context)) return withStore(context, 'read', use);
  const { datastore } = netconf.config;
  await using store = await openAdmitted(context, datastore, 'read');
  return await use(store, datastore);
}

/** Opens the Kubernetes API with the access of the datastore if that is Kubernetes, or else with `own`. */
export function openOrchOf({ ports }: Context, datastore: Datastore, own: OrchSettings): OrchReader & AsyncDisposable {
  return ports.plugin.openOrch(datastore.type === 'orch' ? datastore.orch : own);
}
