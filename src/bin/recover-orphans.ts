import { join } from 'node:path';
import { isNetplugError } from '../base/errors.ts';
import type { PluginDependencies } from '../cni/run-plugin.ts';
import { tryLockFile } from '../dataplane/linux/file-lock.ts';
import { assertName } from '../ipam/node/name-claim.ts';
import { recoverBeforeCall } from '../ipam/node/recover-before-call.ts';
import { attachedIn } from './attached.ts';
import { hostIn } from './host-in.ts';
import { readMachineIdentity } from './machine-identity.ts';
import { addressesInUse } from './addresses-in-use.ts';
import { stateDir } from './registration.ts';

/** Returns the folder of the journals of agents. */
export function journalFolder(env: NodeJS.ProcessEnv): string {
  return join(stateDir(env), 'journal');
}

/** Returns the recovery that the standalone program runs before it serves a call. */
export function recoverOrphansIn(env: NodeJS.ProcessEnv): PluginDependencies['recover'] {
  return async (ports, { call: { node, attachment, signal }, command, datastore: { type } }) => {
    // On the API the agent writes the configuration by which runtimes call the plugin, once it has the name.
    if (type === 'kvv3' && (command === 'ADD' || command === 'GC')) {
      const named = { node, machine: () => readMachineIdentity(env), nowMs: ports.clock.now() };
      await assertName(ports.store, named, signal).catch((cause: unknown) => {
        // GC removes links also while the datastore is unavailable.
        if (command === 'ADD' || isNetplugError(cause, 'agent/name-taken')) throw cause;
      });
    }
    const place = { folder: journalFolder(env), tryLock: tryLockFile };
    const settling = {
      ...ports,
      get host() {
        return hostIn(env);
      },
      place,
      listAttached: attachedIn(ports.kernel),
      listAddressesInUse: addressesInUse(ports.kernel, ports.attachments),
    };
    await recoverBeforeCall(settling, { node, attachment, type, isAdd: command === 'ADD' }, signal);
  };
}
