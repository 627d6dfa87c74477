import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { isUnknownKind } from '../../../kube/answers.ts';
import type { ResourceStore } from '../../../datastore/resource-store.ts';
import {
  createsDefaultPool,
  fieldsWrittenBack,
  isOwned,
  listedPool,
  MANAGED_ANNOTATION,
  UNMANAGED,
} from '../../../install/cluster/owned-pool.ts';
import { INSTALLATION_NAME, type InstallationSpec } from '../../../model/installation.ts';
import type { IpPool } from '../../../model/ip-pool.ts';

const LISTED = 'lists the pool';

/** Refuses a change of a pool that the operator would write back. @throws resource/owned */
export async function refuseWrittenBack(
  store: ResourceStore,
  pools: { readonly before: IpPool; readonly after: IpPool },
  signal: AbortSignal,
): Promise<void> {
  if (!isOwned(pools.before)) return;
  const fields = fieldsWrittenBack((await installationSpec(store, signal)) ?? {}, pools);
  if (fields.length === 0) return;
  const { name } = pools.before.metadata;
  const setBy = [...new Set(fields.map((field) => field.setBy ?? ''))].filter((path) => path !== '');
  const instead =
    setBy.length === 0 ? '' : `Set ${setBy.join(' and ')} of Installation "${INSTALLATION_NAME}" instead. `;
  const leave = `To keep the operator from the pool: kubectl annotate ippools.netplug.io ${name} ${MANAGED_ANNOTATION}=${UNMANAGED}`;
  const act = `change ${fields.map(({ path }) => path).join(' and ')} of`;
  throw ownedError(name, { act, why: LISTED, answer: 'write it back', hint: instead + leave });
}

/**
 * Refuses to delete a pool that the operator would create again, also one that it does not own now, and the last one where it would
 * create another. @throws resource/owned
 */
export async function refuseCreatedAgain(store: ResourceStore, pool: IpPool, signal: AbortSignal): Promise<void> {
  const { name } = pool.metadata;
  const spec = await installationSpec(store, signal);
  if (spec === undefined) return;
  const found = listedPool(spec, pool);
  if (found !== undefined) {
    const hint = `Remove ${found.at} from Installation "${INSTALLATION_NAME}" first`;
    throw ownedError(name, { act: 'delete', why: LISTED, answer: 'create it again', hint });
  }
  if (!createsDefaultPool(spec)) return;
  const { resources, problems } = await store.listResources('IPPool', signal);
  if (problems.length > 0 || resources.some(({ metadata }) => metadata.name !== name)) return;
  throw ownedError(name, {
    act: 'delete',
    why: 'names no pools, this one is the last',
    answer: 'create another, perhaps of another range',
    hint: `Set spec.calicoNetwork.ipPools of Installation "${INSTALLATION_NAME}" first: to the pools that there should be, or to [] for none`,
  });
}

/** Undefined without an Installation, also where the user may not read it. */
async function installationSpec(store: ResourceStore, signal: AbortSignal): Promise<InstallationSpec | undefined> {
  try {
    const found = await store.findResource({ kind: 'Installation', name: INSTALLATION_NAME }, signal);
    return found?.spec;
  } catch (cause) {
    if (isNetplugError(cause, 'store/refused', 'store/corrupt') || isUnknownKind(cause)) return undefined;
    throw cause;
  }
}

function ownedError(
  name: string,
  { act, why, answer, hint }: Readonly<Record<'act' | 'why' | 'answer' | 'hint', string>>,
): NetplugError {
  return new NetplugError(
    'resource/owned',
    `Cannot ${act} IPPool "${name}": Installation "${INSTALLATION_NAME}" ${why}, and netplug-operator would ${answer}`,
    { hint, facts: { pool: name } },
  );
}
