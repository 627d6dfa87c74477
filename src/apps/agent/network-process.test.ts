import { expect, it } from 'vitest';
import { type Clock, systemClock, virtualClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import { WatchRelay } from '../../kube/watch-relay.ts';
import { MemoryDatabase } from '../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import type { NetworkStatus } from './network-channel.ts';
import { NetworkProcess } from './network-process.ts';
import { PodIsolator } from './pod-isolator.ts';
import { PATIENCE_MS } from '../../../test/support/until.ts';

/** A process that ends as requested: it crashes, or answers nothing until it is killed. */
type Death = 'crash' | 'hang';

/** Ports of a process with nothing around it. */
function portsWith(clock: Clock): Omit<ConstructorParameters<typeof NetworkProcess>[0], 'launch'> {
  return {
    clock,
    random: systemRandom,
    log: silentLog,
    followed: openMemoryStore(new MemoryDatabase()),
    onSettings: () => undefined,
    untilNamed: async () => Promise.resolve(),
    onRestart: () => undefined,
    relays: new Map([
      ['pods', new WatchRelay(clock)],
      ['endpoints', new WatchRelay(clock)],
    ]),
    isolator: new PodIsolator({
      clock,
      setting: 'off',
      isOn: false,
      offReason: '',
      findEndpointObstacle: async () => Promise.resolve(undefined),
      withdraw: async () => Promise.resolve(),
      findObstacle: async () => Promise.resolve(undefined),
    }),
  };
}

function networkOf(
  deaths: readonly Death[],
  clock = systemClock,
): {
  network: NetworkProcess;
  starts: () => number;
  restarts: () => number;
} {
  let [starts, restarts] = [0, 0];
  const network = new NetworkProcess({
    ...portsWith(clock),
    onRestart: () => (restarts += 1),
    launch: () => {
      const death = deaths[starts];
      starts += 1;
      const { promise: ended, resolve } = Promise.withResolvers<string>();
      if (death === 'crash') resolve('SIGKILL');
      const kill = (): void => resolve('SIGKILL');
      return { send: ({ kind }) => (kind === 'stop' ? resolve('status 0') : undefined), ended, kill };
    },
  });
  return { network, starts: () => starts, restarts: () => restarts };
}

it('goes on and names the reason when a process crashes', async () => {
  const { network, starts, restarts } = networkOf(['crash', 'crash']);
  const stop = new AbortController();
  const running = network.run(stop.signal);
  await expect
    .poll(async () => network.failures(), { timeout: PATIENCE_MS })
    .toEqual(['network: its process exited: SIGKILL']);
  await expect.poll(starts, { timeout: PATIENCE_MS }).toBe(3);
  expect(restarts()).toBe(2);
  stop.abort();
  await running;
});

it('cuts the node off once its process has exited, and not while the first one starts or hangs', async () => {
  const stop = new AbortController();
  const [crashing, hanging] = [networkOf(Array<Death>(14).fill('crash')), networkOf(['hang'], virtualClock())];
  for (const { network } of [crashing, hanging]) expect(await network.observed()).not.toHaveProperty('disconnections');
  const running = [crashing, hanging].map(async ({ network }) => network.run(stop.signal));
  const exited = ['network: its process exited: SIGKILL'];
  await expect
    .poll(async () => crashing.network.observed(), { timeout: PATIENCE_MS })
    .toEqual({ failures: exited, disconnections: exited });
  expect(await hanging.network.observed()).toEqual({ failures: ['network: its process did not answer within 5 s'] });
  stop.abort();
  await Promise.all(running);
});

it('kills a process that answers no question for two minutes, and not before', async () => {
  const clock = virtualClock();
  const { network, restarts } = networkOf(['hang'], clock);
  const stop = new AbortController();
  const running = network.run(stop.signal);
  const unanswered = ['network: its process did not answer within 5 s'];
  const begunMs = clock.monotonic();
  while (clock.monotonic() - begunMs < 115_000) expect(await network.failures()).toEqual(unanswered);
  expect(restarts()).toBe(0);
  await network.failures();
  await expect.poll(restarts, { timeout: PATIENCE_MS }).toBe(1);
  stop.abort();
  await running;
});

it('names a process whose threads are all held, and kills it when that lasts', async () => {
  const clock = virtualClock(0);
  const [standing, stop] = [{} as NetworkStatus['standing'], new AbortController()];
  let [stuckMs, kills] = [12_000, 0];
  const { promise: ended, resolve } = Promise.withResolvers<string>();
  const network = new NetworkProcess({
    ...portsWith(clock),
    launch: (onMessage) => ({
      send: (message) => {
        if (message.kind === 'status') {
          const failures = [`threads: none has been free for ${String(stuckMs)} ms`];
          onMessage({
            kind: 'status',
            id: message.id,
            status: { standing, failures, problems: [], threadsStuckMs: stuckMs },
          });
        }
      },
      ended,
      kill: () => {
        kills += 1;
        resolve('SIGKILL');
      },
    }),
  });
  const running = network.run(stop.signal);
  expect(await network.failures()).toEqual(['threads: none has been free for 12000 ms']);
  expect(kills).toBe(0);
  stuckMs = 120_000;
  await network.failures();
  expect(kills).toBe(1);
  stop.abort();
  await running;
});
