import { join } from 'node:path';
import { systemClock } from '../base/clock.ts';
import { Bird } from '../bgp/bird.ts';
import { readVariable } from '../config/environment.ts';

/** Returns the folder of the host's BIRD: `bird` below NETPLUG_RUN_DIR. */
export function birdFolder(env: NodeJS.ProcessEnv): string {
  return join(readVariable(env, 'NETPLUG_RUN_DIR'), 'bird');
}

/** Returns the port to the BIRD of this host. */
export function birdIn(env: NodeJS.ProcessEnv): Bird {
  const program = readVariable(env, 'NETPLUG_BIRD') === 'external' ? 'external' : (['bird'] as const);
  return new Bird({ places: { folder: birdFolder(env), program }, clock: systemClock });
}
