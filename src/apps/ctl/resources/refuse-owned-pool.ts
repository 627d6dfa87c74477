import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import type { ResourceStore } from '../../../datastore/resource-store.ts';
import {
  fieldsWrittenBack,
  isLeftAlone,
  isOwned,
  listedPool,
  MANAGED_ANNOTATION,
  UNMANAGED,
} from '../../../install/cluster/owned-pool.ts';
import { INSTALLATION_NAME, type InstallationSpec } from '../../../model/installation.ts';
import type { IpPool } from '../../../model/ip-pool.ts';

/** Refuses a change of a pool that the operator would write back. @throws resource/owned */
export async function refuseWrittenBack(
  store: ResourceStore,
  pools: { readonly before: IpPool; readonly after: IpPool },
  signal: AbortSignal,
): Promise<void> {
  const fields = fieldsWrittenBack(await installationSpec(store, pools.before, signal), pools);
  if (fields.length === 0) return;
  const { name } = pools.before.metadata;
  const setBy = [...new Set(fields.map((field) => field.setBy ?? ''))].filter((path) => path !== '');
  const instead =
    setBy.length === 0 ? '' : `Set ${setBy.join(' and ')} of Installation "${INSTALLATION_NAME}" instead. `;
  const act = `change ${fields.map(({ path }) => path).join(' and ')} of`;
  throw ownedError(name, { act, answer: 'write it back', instead });
}

/** Refuses to delete a pool that the operator would create again. @throws resource/owned */
export async function refuseCreatedAgain(store: ResourceStore, pool: IpPool, signal: AbortSignal): Promise<void> {
  const found = listedPool(await installationSpec(store, pool, signal), pool.metadata.name);
  if (found === undefined) return;
  const instead = `Remove ${found.at} from Installation "${INSTALLATION_NAME}" first. `;
  throw ownedError(pool.metadata.name, { act: 'delete', answer: 'create it again', instead });
}

/** Empty where no operator edits the pool, or the user may not read its Installation. */
async function installationSpec(store: ResourceStore, pool: IpPool, signal: AbortSignal): Promise<InstallationSpec> {
  if (!isOwned(pool) || isLeftAlone(pool)) return {};
  try {
    const found = await store.findResource({ kind: 'Installation', name: INSTALLATION_NAME }, signal);
    return found?.spec ?? {};
  } catch (cause) {
    if (isNetplugError(cause, 'store/refused', 'store/corrupt')) return {};
    throw cause;
  }
}

function ownedError(
  name: string,
  { act, answer, instead }: { readonly act: string; readonly answer: string; readonly instead: string },
): NetplugError {
  return new NetplugError(
    'resource/owned',
    `Cannot ${act} IPPool "${name}": Installation "${INSTALLATION_NAME}" lists the pool, and netplug-operator would ${answer}`,
    {
      hint: `${instead}To keep the operator from the pool: kubectl annotate ippools.netplug.io ${name} ${MANAGED_ANNOTATION}=${UNMANAGED}`,
      facts: { pool: name },
    },
  );
}
