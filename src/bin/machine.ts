import { isSea } from 'node:sea';
import type { Machine } from '../cli/ports.ts';
import { stateDir } from './registration.ts';

/** The files and folders of the machine this process runs on. */
export function machineOf(env: NodeJS.ProcessEnv): Machine {
  return {
    executable: isSea() ? process.execPath : undefined,
    stateDir: stateDir(env),
    runDir: '/run/netplug',
    logDir: '/var/log/netplug',
    serviceAccountDir: '/var/run/secrets/kubernetes.io/serviceaccount',
  };
}
