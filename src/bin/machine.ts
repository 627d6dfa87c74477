import { join } from 'node:path';
import { isSea } from 'node:sea';
import type { Machine } from '../apps/ctl/ports.ts';
import { readVariable } from '../config/environment.ts';
import { stateDir } from './registration.ts';

/** The file that the agent of this node has locked. */
export function agentLockPath(env: NodeJS.ProcessEnv): string {
  return join(stateDir(env), 'agent.lock');
}

/** The files and folders of the machine this process runs on. */
export function machineOf(env: NodeJS.ProcessEnv): Machine {
  return {
    executable: isSea() ? process.execPath : undefined,
    stateDir: stateDir(env),
    runDir: readVariable(env, 'NETPLUG_RUN_DIR'),
    agentLock: agentLockPath(env),
    socketPath: readVariable(env, 'NETPLUG_SOCKET'),
    logDir: '/var/log/netplug',
    serviceAccountDir: '/var/run/secrets/kubernetes.io/serviceaccount',
  };
}
