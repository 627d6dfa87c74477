import { join } from 'node:path';
import { isSea } from 'node:sea';
import type { Machine } from '../apps/ctl/ports.ts';
import { stateDir } from './registration.ts';

const DEFAULT_RUN_DIR = '/run/netplug';

/** The folder for files that need not survive a reboot: NETPLUG_RUN_DIR. An empty value counts as unset. */
export function runDir(env: NodeJS.ProcessEnv): string {
  const path = env['NETPLUG_RUN_DIR'] ?? '';
  return path === '' ? DEFAULT_RUN_DIR : path;
}

/** The socket of the node's agent: NETPLUG_SOCKET. As in the plugin, an empty value counts as unset. */
export function socketPath(env: NodeJS.ProcessEnv): string {
  const path = env['NETPLUG_SOCKET'] ?? '';
  return path === '' ? join(DEFAULT_RUN_DIR, 'cni.sock') : path;
}

/** The file that the agent of this node has locked. */
export function agentLockPath(env: NodeJS.ProcessEnv): string {
  return join(stateDir(env), 'agent.lock');
}

/** The files and folders of the machine this process runs on. */
export function machineOf(env: NodeJS.ProcessEnv): Machine {
  return {
    executable: isSea() ? process.execPath : undefined,
    stateDir: stateDir(env),
    runDir: runDir(env),
    agentLock: agentLockPath(env),
    socketPath: socketPath(env),
    logDir: '/var/log/netplug',
    serviceAccountDir: '/var/run/secrets/kubernetes.io/serviceaccount',
  };
}
