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
        if (await bird.stop(signal)) return [];
      } catch (cause) {
        if (!isNetplugError(cause, 'bgp/bird-failed')) throw cause;
      }
      const isGone = await killed(ports, signal);
      return isGone ? [] : subjects.map((subject) => ({ subject, reason: 'it neither answers nor exits' }));
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

/** Kills BIRD by its process id, found by its arguments. Returns whether it exits in time. */
async function killed({ bird, sendSignal, clock }: HostPorts, signal: AbortSignal): Promise<boolean> {
  const pid = await bird.findProcess();
  if (pid !== undefined) sendSignal(pid, 'SIGKILL');
  for (let waitedMs = 0; waitedMs < END_MS; waitedMs += END_PERIOD_MS) {
    if ((await bird.findProcess()) === undefined) return true;
    await clock.sleep(END_PERIOD_MS, signal);
  }
  return false;
}
