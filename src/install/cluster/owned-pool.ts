import { isDeepStrictEqual } from 'node:util';
import { type InstallationPool, type InstallationSpec, poolName } from '../../model/installation.ts';
import type { IpPool } from '../../model/ip-pool.ts';
import { OPERATOR } from './names.ts';
import { poolOf } from './pool-of.ts';

/** The label of a pool that the operator creates and edits. */
export const OWNER_LABEL = 'app.kubernetes.io/managed-by';
/** An annotation of an object that the operator must not write; its value is `unmanaged`. */
export const MANAGED_ANNOTATION = 'netplug.io/operator';
export const UNMANAGED = 'unmanaged';

/** Reports whether the operator edits the pool where its Installation lists it. */
export function isOwned({ metadata }: IpPool): boolean {
  return metadata.labels?.[OWNER_LABEL] === OPERATOR;
}

interface Annotated {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> | null | undefined };
}

/** Reports whether the operator leaves the object as it is. */
export function isLeftAlone({ metadata }: Annotated): boolean {
  return metadata.annotations?.[MANAGED_ANNOTATION] === UNMANAGED;
}

/** A pool that an Installation lists, and its path there. */
export interface ListedPool {
  readonly listed: InstallationPool;
  readonly at: string;
}

/** Finds the pool by name and range: one of that name with another range is refused until this one is gone. */
export function listedPool({ cni, calicoNetwork }: InstallationSpec, pool: IpPool): ListedPool | undefined {
  const pools = cni?.ipam?.type === 'HostLocal' ? [] : (calicoNetwork?.ipPools ?? []);
  const isSame = ({ cidr }: InstallationPool, at: number): boolean =>
    cidr === pool.spec.cidr && poolName(pools, at) === pool.metadata.name;
  const index = pools.findIndex(isSame);
  const listed = pools[index];
  return listed === undefined ? undefined : { listed, at: `spec.calicoNetwork.ipPools[${String(index)}]` };
}

/** Reports whether the operator creates a pool of its own choice in a cluster without any pool. */
export function createsDefaultPool({ cni, calicoNetwork }: InstallationSpec): boolean {
  return calicoNetwork?.ipPools === undefined && cni?.ipam?.type !== 'HostLocal';
}

const SET_BY: Readonly<Record<keyof IpPool['spec'], keyof InstallationPool | undefined>> = {
  cidr: 'cidr',
  ipipMode: 'encapsulation',
  vxlanMode: 'encapsulation',
  natOutgoing: 'natOutgoing',
  disabled: 'disabled',
  disableBGPExport: 'disableBGPExport',
  blockSize: 'blockSize',
  nodeSelector: 'nodeSelector',
  allowedUses: undefined,
};

/** A field of a pool that the operator writes back. */
export interface OwnedField {
  readonly path: string;
  /** Path of the field of the Installation that sets it; undefined when none does. */
  readonly setBy: string | undefined;
}

/** Returns the changed fields that the operator would write back. Pure. */
export function fieldsWrittenBack(
  spec: InstallationSpec,
  { before, after }: { readonly before: IpPool; readonly after: IpPool },
): readonly OwnedField[] {
  const { name } = before.metadata;
  const found = listedPool(spec, before);
  if (found === undefined || !isOwned(before) || isLeftAlone(after)) return [];
  const { listed, at } = found;
  const rendered = poolOf({ blockSize: before.spec.blockSize, ...listed }, name);
  const isChanged = (field: keyof IpPool['spec'], from: IpPool): boolean =>
    !isDeepStrictEqual(from.spec[field], after.spec[field]);
  // The keys of the table.
  const fields = Object.keys(SET_BY) as (keyof IpPool['spec'])[];
  return fields
    .filter((field) => isChanged(field, before) && isChanged(field, rendered))
    .map((field) => {
      const setBy = SET_BY[field];
      return { path: `spec.${field}`, setBy: setBy === undefined ? undefined : `${at}.${setBy}` };
    });
}
