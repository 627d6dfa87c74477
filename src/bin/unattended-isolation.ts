import { existsSync } from 'node:fs';
import type { PodIsolation } from '../cni/pod-isolation.ts';
import { policyMarker } from './registration.ts';

/** Returns what holds of policies while no agent serves the call: the kernel drops what the last agent did not know. */
export function unattendedIsolation(env: NodeJS.ProcessEnv): PodIsolation {
  const isClosed = (): boolean => existsSync(policyMarker(env));
  return {
    isOn: false,
    isolate: async () =>
      Promise.resolve(
        isClosed()
          ? { state: 'closed', reason: 'no agent is running' }
          : { state: 'not enforced', reason: 'no agent is running, and none has enforced policies on this node' },
      ),
    release: async () => Promise.resolve(),
  };
}
