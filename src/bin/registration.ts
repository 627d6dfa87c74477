import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { errnoOf } from '../base/errors.ts';

/** Where netplug remembers things about this node. */
export function stateDir(env: NodeJS.ProcessEnv): string {
  return env['NETPLUG_STATE_DIR'] ?? '/var/lib/netplug';
}

/** Where the records of attachments lie. */
export function attachmentFolder(env: NodeJS.ProcessEnv): string {
  return join(stateDir(env), 'attachments');
}

/** The node name the agent registered this machine under, from `nodename` in the state folder; undefined without one. */
export function readRegisteredName(env: NodeJS.ProcessEnv): string | undefined {
  return readLine(join(stateDir(env), 'nodename'));
}

/** The MTU, in bytes, that the agent offers to pods, from `mtu` in the state folder; undefined without one. */
export function readOfferedMtu(env: NodeJS.ProcessEnv): number | undefined {
  const text = readLine(join(stateDir(env), 'mtu'));
  return text !== undefined && /^\d{3,5}$/.test(text) ? Number(text) : undefined;
}

function readLine(path: string): string | undefined {
  try {
    const text = readFileSync(path, 'utf8').trim();
    return text === '' ? undefined : text;
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT' || errnoOf(cause) === 'ENOTDIR') return undefined;
    throw cause;
  }
}
