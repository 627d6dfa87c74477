import { existsSync } from 'node:fs';
import type { PolicyStart } from '../apps/agent/network/policy/enforcement-ports.ts';
import { reasonOf } from '../base/errors.ts';
import type { Datastore } from '../config/connection.ts';
import { readVariable } from '../config/environment.ts';
import type { ResourceStore } from '../datastore/resource-store.ts';
import type { LeaderReader } from '../datastore/store.ts';
import { CONTROLLERS } from '../model/automatic-host-endpoint.ts';
import { namespaceProfile } from '../model/policy-names.ts';
import type { WorkloadEndpoint } from '../model/workload-endpoint.ts';
import { policyMarker } from './registration.ts';

interface PolicySetting {
  readonly setting: 'on' | 'off' | 'auto';
  /** Whether policies are enforced from the start. */
  readonly isOn: boolean;
  readonly start: PolicyStart;
  readonly offReason: string;
}

/** Returns whether the agent enforces policies. */
export function policySettingIn(env: NodeJS.ProcessEnv): PolicySetting {
  const setting = readVariable(env, 'NETPLUG_POLICY');
  const wasOn = existsSync(policyMarker(env));
  // No ADD is served for pods of another plugin, which could switch policies on.
  const hasForeignPods = readVariable(env, 'NETPLUG_INTERFACE_PREFIX').length > 0;
  const isOn = setting === 'on' || (setting === 'auto' && (wasOn || hasForeignPods));
  return {
    setting,
    isOn,
    start: isOn ? 'enforce' : setting === 'auto' ? 'on demand' : 'remove',
    offReason: 'NETPLUG_POLICY of the agent is off',
  };
}

/**
 * Returns that no controllers run where policies come from them, and that none ever ran: they make the profile of the namespace
 * "default" first of all. Controllers that have ended are no reason to refuse pods, whose policies are in the datastore.
 */
export async function missingControllers(
  { type }: Pick<Datastore, 'type'>,
  store: Pick<ResourceStore, 'findResource'> & LeaderReader,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (type === 'orch') return undefined;
  const name = namespaceProfile('default');
  if ((await store.findLeader?.(CONTROLLERS, signal)) !== undefined) return undefined;
  if ((await store.findResource({ kind: 'Profile', name }, signal)) !== undefined) return undefined;
  return `no ${CONTROLLERS} run: etcd has neither their leader nor Profile "${name}", so that no policy is enforced`;
}

/**
 * Returns why policies must not be switched on for a pod: on etcd, pods are closed until controllers have made the profile of
 * their namespace. Where none run, `auto` leaves the node open.
 */
export async function missingProfile(
  { type }: Datastore,
  { store, endpoint }: { readonly store: Pick<ResourceStore, 'findResource'>; readonly endpoint: WorkloadEndpoint },
  signal: AbortSignal,
): Promise<string | undefined> {
  if (type === 'orch') return undefined;
  const name = namespaceProfile(endpoint.metadata.namespace ?? 'default');
  try {
    if ((await store.findResource({ kind: 'Profile', name }, signal)) !== undefined) return undefined;
    return `Profile "${name}" does not exist: run netplug-orch-controllers`;
  } catch (cause) {
    return `it is not known whether Profile "${name}" exists: ${reasonOf(cause)}`;
  }
}
