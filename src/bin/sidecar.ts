import { serveSidecar } from '../apps/sidecar/serve-sidecar.ts';
import { repeat, systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { aborted } from '../base/until-aborted.ts';
import { VERSION } from '../base/version.ts';
import { readVariable } from '../config/environment.ts';
import { startAbstractHealthServer } from '../runtime/health-server.ts';
import { AGENT_SOCKET, CHECK_SOCKET } from '../policy/feed/messages.ts';
import { interruptions } from './interruptions.ts';
import { openStderrLog } from './open-log.ts';

const PROGRAM = 'netplug-sidecar';

/** Judges the requests that the pod receives, until a signal stops it and its proxy has drained. */
export async function runSidecar(env: NodeJS.ProcessEnv): Promise<void> {
  const log = openStderrLog();
  const stop = interruptions();
  const settings = {
    release: VERSION,
    sockets: { agent: AGENT_SOCKET, check: CHECK_SOCKET },
    proxy: readVariable(env, 'NETPLUG_SIDECAR_PROXY', PROGRAM),
    drainMs: readVariable(env, 'NETPLUG_SIDECAR_DRAIN_SECONDS', PROGRAM) * 1000,
  };
  await using sidecar = await serveSidecar(settings, { clock: systemClock, random: systemRandom, repeat, log });
  await using _health = await startAbstractHealthServer('netplug-sidecar-health', {
    notReady: async () => Promise.resolve(sidecar.notReady()),
    // The agent of the node counts requests: no scrape reaches a name in a pod.
    metrics: { render: async () => Promise.resolve(''), contentType: 'text/plain' },
    log,
  });
  log.info('serving');
  await aborted(stop);
  await sidecar.drained(new AbortController().signal);
}
