import { join } from 'node:path';
import { readVariable } from '../config/environment.ts';
import { readText } from './read-text.ts';

/** Where netplug remembers things about this node. */
export function stateDir(env: NodeJS.ProcessEnv): string {
  return readVariable(env, 'NETPLUG_STATE_DIR');
}

/** Where the records of attachments lie. */
export function attachmentFolder(env: NodeJS.ProcessEnv): string {
  return join(stateDir(env), 'attachments');
}

/** The node name the agent registered this machine under, from `nodename` in the state folder; undefined without one. */
export function readRegisteredName(env: NodeJS.ProcessEnv): string | undefined {
  return readText(join(stateDir(env), 'nodename'));
}

/** The MTU, in bytes, that the agent offers to pods, from `mtu` in the state folder; undefined without one. */
export function readOfferedMtu(env: NodeJS.ProcessEnv): number | undefined {
  const text = readText(join(stateDir(env), 'mtu'));
  return text !== undefined && /^\d{3,5}$/.test(text) ? Number(text) : undefined;
}
