import { expect, it } from 'vitest';
import { virtualClock } from '../../base/clock.ts';
import { birdPart } from './bird-part.ts';
import type { HostPorts } from './host-ports.ts';

const signal = new AbortController().signal;

/** A host with processes of BIRD, of which `stop` ends the first. */
function hostWith(running: number[]): { ports: HostPorts; running: number[] } {
  const ports = {
    clock: virtualClock(),
    bird: {
      status: async () => Promise.resolve(undefined),
      stop: async () => Promise.resolve(running.shift() !== undefined),
      findProcess: async () => Promise.resolve(running.at(0)),
    },
    sendSignal: (pid: number) => void running.splice(running.indexOf(pid), 1),
  };
  return { ports: ports as unknown as HostPorts, running };
}

it('ends a second BIRD as well, which an agent has started beside one whose socket is gone', async () => {
  const { ports, running } = hostWith([7, 8, 9]);
  const part = birdPart(ports);
  expect(await part.remove(await part.find(signal), signal)).toEqual([]);
  expect(running).toEqual([]);
});

it('says which one it cannot end', async () => {
  const { ports } = hostWith([7, 8]);
  const part = birdPart({ ...ports, sendSignal: () => undefined });
  expect(await part.remove(['process 7'], signal)).toEqual([
    { subject: 'process 7', reason: 'it neither answers nor exits' },
  ]);
});
