import { NetplugError } from '../base/errors.ts';
import type { Datastore } from '../config/connection.ts';
import { type Env, readVariable } from '../config/environment.ts';

/**
 * Returns the beginnings of the names of interfaces that another plugin makes for pods. Only the API has pods that netplug did
 * not connect: elsewhere their interfaces would stay closed. @throws cni/env-invalid
 */
export function interfacePrefixesIn(env: Env, { type }: Pick<Datastore, 'type'>): readonly string[] {
  const prefixes = readVariable(env, 'NETPLUG_INTERFACE_PREFIX');
  if (prefixes.length > 0 && type !== 'orch')
    throw new NetplugError(
      'cni/env-invalid',
      `Cannot use the environment: NETPLUG_INTERFACE_PREFIX is set, and the datastore is etcd, which has no pods of other plugins`,
      { hint: 'Set DATASTORE_TYPE to orch, or unset NETPLUG_INTERFACE_PREFIX' },
    );
  return prefixes;
}
