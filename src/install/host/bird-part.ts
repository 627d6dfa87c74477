import { isNetplugError } from '../../base/errors.ts';
import type { HostPorts } from './host-ports.ts';
import type { Part } from './part.ts';

const END_MS = 5000;
const END_PERIOD_MS = 20;

/** Stops the BIRD that the agent has started by its control socket, or kills it if it does not answer. */
export function birdPart(ports: HostPorts): Part {
  const { bird } = ports;
  return {
    kind: 'bird',
    find: async (signal) => {
      const pid = await bird.findProcess();
      if (pid !== undefined) return [`process ${String(pid)}`];
      return (await answers(ports, signal)) ? ['control socket'] : [];
    },
    remove: async (subjects, signal) => {
      try {
        // An agent starts another one beside a BIRD whose socket is gone.
        if ((await bird.stop(signal)) && (await isGone(ports, signal))) return [];
      } catch (cause) {
        if (!isNetplugError(cause, 'bgp/bird-failed')) throw cause;
      }
      const isKilled = await isGone(ports, signal, (pid) => ports.sendSignal(pid, 'SIGKILL'));
      return isKilled ? [] : subjects.map((subject) => ({ subject, reason: 'it neither answers nor exits' }));
    },
  };
}

async function answers({ bird }: HostPorts, signal: AbortSignal): Promise<boolean> {
  try {
    return (await bird.status(signal)) !== undefined;
  } catch (cause) {
    if (isNetplugError(cause, 'bgp/bird-failed')) return true;
    throw cause;
  }
}

/** Reports whether no BIRD runs any more within the time. Each that is found by its arguments meanwhile is given to `end`. */
async function isGone(
  { bird, clock }: HostPorts,
  signal: AbortSignal,
  end: (pid: number) => void = () => undefined,
): Promise<boolean> {
  for (let waitedMs = 0; waitedMs < END_MS; waitedMs += END_PERIOD_MS) {
    const pid = await bird.findProcess();
    if (pid === undefined) return true;
    end(pid);
    await clock.sleep(END_PERIOD_MS, signal);
  }
  return false;
}
