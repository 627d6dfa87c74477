import { join } from 'node:path';
import { systemClock } from '../base/clock.ts';
import { Bird } from '../bgp/bird.ts';
import { runDir } from './machine.ts';

/** Where the files of the host's BIRD lie: `bird` below NETPLUG_RUN_DIR. */
export function birdFolder(env: NodeJS.ProcessEnv): string {
  return join(runDir(env), 'bird');
}

/** The one BIRD of this host. */
export function birdIn(env: NodeJS.ProcessEnv): Bird {
  return new Bird({ places: { folder: birdFolder(env), program: ['bird'] }, clock: systemClock });
}
