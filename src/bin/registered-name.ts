import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { errnoOf } from '../base/errors.ts';

/** Where netplug remembers things about this node. */
export function stateDir(env: NodeJS.ProcessEnv): string {
  return env['NETPLUG_STATE_DIR'] ?? '/var/lib/netplug';
}

/** The node name the agent registered this machine under, from `nodename` in the state folder; undefined without one. */
export function readRegisteredName(env: NodeJS.ProcessEnv): string | undefined {
  try {
    const name = readFileSync(join(stateDir(env), 'nodename'), 'utf8').trim();
    return name === '' ? undefined : name;
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT' || errnoOf(cause) === 'ENOTDIR') return undefined;
    throw cause;
  }
}
