import { existsSync } from 'node:fs';
import { reasonOf } from '../base/errors.ts';
import type { Isolation, PodIsolation } from '../cni/pod-isolation.ts';
import { closePods } from './close-pods.ts';
import { policyMarker } from './registration.ts';

/**
 * Returns what holds of policies while no agent serves the call: on a node that enforces them, the kernel drops what the
 * last agent did not know. After a reboot it drops the packets of all pods, until an agent has read their policies.
 */
export function unattendedIsolation(env: NodeJS.ProcessEnv): PodIsolation {
  const isRemembered = (): boolean => existsSync(policyMarker(env));
  return {
    get isOn() {
      return isRemembered();
    },
    isolate: async (_endpoint, signal) =>
      isRemembered()
        ? isolateAlone(signal)
        : { state: 'not enforced', reason: 'no agent is running, and none has enforced policies on this node' },
    release: async () => Promise.resolve(),
  };
}

async function isolateAlone(signal: AbortSignal): Promise<Isolation> {
  try {
    await closePods(signal);
    return { state: 'closed', reason: 'no agent is running' };
  } catch (cause) {
    return { state: 'not enforced', reason: `no agent is running, and pods cannot be closed: ${reasonOf(cause)}` };
  }
}
