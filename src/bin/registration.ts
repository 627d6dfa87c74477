import { join } from 'node:path';
import { isSet, readVariable } from '../config/environment.ts';
import { readText } from './read-text.ts';

/** Returns the folder of netplug's state on this node. */
export function stateDir(env: NodeJS.ProcessEnv): string {
  return readVariable(env, 'NETPLUG_STATE_DIR');
}

/** Returns the folder of the records of attachments. */
export function attachmentFolder(env: NodeJS.ProcessEnv): string {
  return join(stateDir(env), 'attachments');
}

/** Returns the folder of the notes of what GC kept. */
export function keptFolder(env: NodeJS.ProcessEnv): string {
  return join(stateDir(env), 'kept');
}

/** Returns the path of the file that exists once policies are enforced on the node. */
export function policyMarker(env: NodeJS.ProcessEnv): string {
  return join(stateDir(env), 'policy');
}

/** Returns the path of the file of the servers of the datastore, which no host endpoint closes. */
export function serverMemory(env: NodeJS.ProcessEnv): string {
  return join(stateDir(env), 'datastore-servers');
}

/** Returns the node name under which the agent registered this machine, from `nodename` in the state folder. */
export function readRegisteredName(env: NodeJS.ProcessEnv): string | undefined {
  return readText(join(stateDir(env), 'nodename'));
}

/** Returns the MTU in bytes that the agent offers to pods, from `mtu` in the state folder. */
export function readOfferedMtu(env: NodeJS.ProcessEnv): number | undefined {
  const text = readText(join(stateDir(env), 'mtu'));
  return text !== undefined && /^\d{3,5}$/.test(text) ? Number(text) : undefined;
}

/** Returns the folder of network configurations: as the environment says, else as `cni-conf-dir` in the state folder has it. */
export function readConfDir(env: NodeJS.ProcessEnv): string {
  const registered = isSet(env, 'NETPLUG_CNI_CONF_DIR') ? undefined : readText(join(stateDir(env), 'cni-conf-dir'));
  return registered ?? readVariable(env, 'NETPLUG_CNI_CONF_DIR');
}
