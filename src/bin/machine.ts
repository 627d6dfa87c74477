import { join } from 'node:path';
import type { Machine } from '../apps/ctl/ports.ts';
import { readVariable } from '../config/environment.ts';
import { RESULTS_DIR } from '../install/host/runtime-records.ts';
import { isExecutable } from '../base/executable.ts';
import { stateDir } from './registration.ts';

/** Returns the path of the file that the agent of this node locks. */
export function agentLockPath(env: NodeJS.ProcessEnv): string {
  return join(stateDir(env), 'agent.lock');
}

/** Returns the files and folders of netplug on this machine. */
export function machineOf(env: NodeJS.ProcessEnv): Machine {
  return {
    executable: isExecutable() ? process.execPath : undefined,
    stateDir: stateDir(env),
    runDir: readVariable(env, 'NETPLUG_RUN_DIR'),
    agentLock: agentLockPath(env),
    socketPath: readVariable(env, 'NETPLUG_SOCKET'),
    resultsDir: RESULTS_DIR,
    logDir: '/var/log/netplug',
    serviceAccountDir: '/var/run/secrets/kubernetes.io/serviceaccount',
  };
}
