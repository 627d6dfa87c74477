import { existsSync } from 'node:fs';
import { reasonOf } from '../base/errors.ts';
import type { Isolation, PodIsolation } from '../cni/pod-isolation.ts';
import type { PolicyFilter } from '../dataplane/policy-filter.ts';
import { type ClosingOptions, closePods } from './close-pods.ts';
import { policyMarker } from './registration.ts';
import { type WithdrawingOptions, withdrawPods } from './withdraw-pods.ts';

interface UnattendedOptions extends Pick<WithdrawingOptions, 'openFlowTable'> {
  /** @throws kernel/failed */
  readonly openFilter?: () => Pick<PolicyFilter, 'create' | 'remove' | 'withdraw'> & Disposable;
}

const NOT_ENFORCED: Isolation = {
  state: 'not enforced',
  reason: 'no agent is running, and none has enforced policies on this node',
};

/**
 * Returns what holds of policies while no agent serves the call: on a node that enforces them, the kernel drops what the
 * last agent did not know. After a reboot it drops the packets of all pods, until an agent has read their policies.
 */
export function unattendedIsolation(env: NodeJS.ProcessEnv, options: UnattendedOptions = {}): PodIsolation {
  const isRemembered = (): boolean => existsSync(policyMarker(env));
  return {
    get isOn() {
      return isRemembered();
    },
    isolate: async (_endpoint, signal) =>
      isRemembered() ? isolateAlone(signal, { ...options, isOn: isRemembered }) : NOT_ENFORCED,
    release: async () => Promise.resolve(false),
    collect: async () => Promise.resolve(false),
    withdraw: async (left, signal) => withdrawPods(left, signal, options),
    findObstacle: async () => Promise.resolve(undefined),
  };
}

async function isolateAlone(signal: AbortSignal, options: ClosingOptions): Promise<Isolation> {
  try {
    const isOn = await closePods(signal, options);
    return isOn ? { state: 'closed', reason: 'no agent is running' } : NOT_ENFORCED;
  } catch (cause) {
    return { state: 'not enforced', reason: `no agent is running, and pods cannot be closed: ${reasonOf(cause)}` };
  }
}
