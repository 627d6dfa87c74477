import { expect, it } from 'vitest';
import { silentLog } from '../../../../base/log.ts';
import { DenialEvents } from './denial-events.ts';
import type { ObservedFlow } from './flow-record.ts';

const FLOW: ObservedFlow = {
  verdict: 'denied',
  source: { address: '10.0.0.1', pod: 'guests/a' },
  destination: { address: '10.0.0.2', pod: 'shop/db' },
  protocol: 6,
  port: 5432,
};

class World {
  nowMs = 0;
  readonly written: string[] = [];
  readonly events = new DenialEvents({
    clock: { now: () => this.nowMs, monotonic: () => this.nowMs, sleep: async () => Promise.resolve() },
    log: silentLog,
    warn: async ({ namespace, name }, message) => void this.written.push(`${namespace}/${name}: ${message}`),
  });

  async deny(flow: Partial<ObservedFlow> = {}, id = 'r', direction: 'ingress' | 'egress' = 'ingress'): Promise<void> {
    await this.events.report({ ...FLOW, ...flow }, { id, direction, reason: () => 'because' });
  }
}

it('names the peer only to its own namespace, with the command that explains the flow', async () => {
  const world = new World();
  await world.deny();
  await world.deny({ destination: { address: '10.0.0.3', pod: 'guests/b' } }, 'r', 'egress');
  expect(world.written).toEqual([
    'shop/db: Denied TCP port 5432 from 10.0.0.1: because. See: netplugctl policy why 10.0.0.1 shop/db --port 5432',
    'guests/a: Denied TCP port 5432 to guests/b (10.0.0.3): because. See: netplugctl policy why guests/a guests/b --port 5432',
  ]);
});

it('is written once per pod and rule in five minutes', async () => {
  const world = new World();
  for (let second = 0; second < 400; second += 10) {
    world.nowMs = second * 1000;
    await world.deny();
  }
  await world.deny({}, 'other rule');
  expect(world.written).toHaveLength(3);
});

it('is bounded for a namespace: a burst, and then one in five seconds', async () => {
  const world = new World();
  const flood = async (): Promise<void> => {
    for (let pod = 0; pod < 100; pod += 1)
      await world.deny({ destination: { address: '10.0.0.2', pod: `shop/p${String(pod)}` } });
  };
  await flood();
  expect(world.written).toHaveLength(20);
  world.nowMs = 10_000;
  await flood();
  expect(world.written).toHaveLength(22);
});

it('is written in one namespace however many connections are denied in others', async () => {
  const world = new World();
  for (let pod = 0; pod < 1000; pod += 1)
    await world.deny({ destination: { address: '10.0.0.2', pod: `guests/p${String(pod)}` } });
  await world.deny();
  expect(world.written.at(-1)).toMatch(/^shop\/db: Denied /);
});

it('is written about peers of one namespace however many of its pods another namespace tries', async () => {
  const world = new World();
  for (let pod = 0; pod < 1000; pod += 1)
    await world.deny({ destination: { address: '10.0.0.2', pod: `shop/p${String(pod)}` } });
  await world.deny({ source: { address: '10.0.0.9', pod: 'shop/web' } });
  expect(world.written.at(-1)).toMatch(/^shop\/db: Denied TCP port 5432 from shop\/web /);
});

it('is written about a pod and a rule again after five minutes, also when the namespace was forgotten', async () => {
  const world = new World();
  await world.deny();
  world.nowMs = 299_000;
  await world.deny();
  expect(world.written).toHaveLength(1);
  world.nowMs = 301_000;
  await world.deny();
  expect(world.written).toHaveLength(2);
});

it('is not written about a pod that is not known', async () => {
  const world = new World();
  await world.deny({ destination: { address: '10.0.0.9' } });
  expect(world.written).toEqual([]);
});
