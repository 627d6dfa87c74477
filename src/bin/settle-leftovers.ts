import { join } from 'node:path';
import type { Surroundings } from '../cni/run-plugin.ts';
import { tryLockFile } from '../dataplane/linux/file-lock.ts';
import { handleOf } from '../model/names.ts';
import { recoverForCall } from '../resident/recover.ts';
import { attachedIn } from './attached.ts';
import { stateDir } from './registration.ts';

/** Where journals of agents lie. */
export function journalFolder(env: NodeJS.ProcessEnv): string {
  return join(stateDir(env), 'journal');
}

/** What the standalone program does before it serves a call. */
export function settleLeftoversIn(env: NodeJS.ProcessEnv): Surroundings['settleLeftovers'] {
  return async (ports, { node, attachment, signal }, datastore) => {
    const place = { folder: journalFolder(env), tryLock: tryLockFile };
    const listAttached = attachedIn(ports.kernel);
    await recoverForCall(
      { ...ports, place, listAttached },
      { datastore, node },
      { handle: handleOf(attachment), signal },
    );
  };
}
