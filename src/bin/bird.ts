import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { BackOff } from '../base/back-off.ts';
import { systemClock } from '../base/clock.ts';
import { errnoOf, reasonOf } from '../base/errors.ts';
import { systemRandom } from '../base/random.ts';
import { type Bird, birdMissing } from '../bgp/bird.ts';
import { birdFailed } from '../bgp/control-socket.ts';
import { birdFolder, birdIn } from './bird-in.ts';
import { interruptions } from './interruptions.ts';
import { openStderrLog } from './open-log.ts';

const PROGRAM = 'bird';
const RESTARTS = { firstMs: 500, maxMs: 10_000 };

/**
 * Runs BIRD in the foreground, apart from the agent, whose container would end it. Waits for the configuration of the
 * agent, and restarts BIRD when it exits, until a signal stops it.
 */
export async function runBird(env: NodeJS.ProcessEnv): Promise<void> {
  const log = openStderrLog();
  const stop = interruptions();
  const bird = birdIn(env);
  const backOff = new BackOff({ clock: systemClock, random: systemRandom }, RESTARTS);
  mkdirSync(birdFolder(env), { recursive: true, mode: 0o700 });
  log.info('waiting for the configuration of BIRD', { folder: birdFolder(env) });
  while (!stop.aborted) {
    try {
      await bird.configured(stop);
      // A BIRD that an agent has started keeps its sessions.
      await bird.ended(stop);
      backOff.start();
      log.info('BIRD started');
      const end = await runToItsEnd(bird, stop);
      if (stop.aborted) break;
      if (end !== 'status 0') throw birdFailed(`BIRD ended with ${end}`);
      log.info('BIRD stopped', { reason: 'it was shut down by its control socket' });
    } catch (cause) {
      if (stop.aborted) break;
      log.error('BIRD failed', { reason: reasonOf(cause) });
      backOff.fail(cause);
      await backOff.wait(stop).catch(() => undefined);
    }
  }
}

/**
 * Runs BIRD until it exits. When the signal aborts, kills it: BIRD would close its sessions and remove its routes on a
 * friendlier signal, while peers and kernel keep the routes of a killed one for the next.
 */
async function runToItsEnd(bird: Bird, stop: AbortSignal): Promise<string> {
  const child = spawn(PROGRAM, ['-f', ...(await bird.prepareStart())], { stdio: ['ignore', 'inherit', 'inherit'] });
  const kill = (): void => void child.kill('SIGKILL');
  stop.addEventListener('abort', kill, { once: true });
  if (stop.aborted) kill();
  try {
    const [status, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]; // as Node declares it
    return signal ?? `status ${String(status)}`;
  } catch (cause) {
    throw errnoOf(cause) === 'ENOENT' ? birdMissing(PROGRAM, cause) : cause;
  } finally {
    stop.removeEventListener('abort', kill);
  }
}
