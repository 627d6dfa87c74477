import { afterEach, expect, it } from 'vitest';
import { residentOn, type World, worldWith } from '../../../test/support/resident-world.ts';
import { until } from '../../../test/support/until.ts';
import { systemClock } from '../../base/clock.ts';

let world: World;
afterEach(async () => world.end());

const PODS = ['a', 'b', 'c', 'd'];
/** However long the test takes, no cool-down ends. */
const clock = { ...systemClock, now: (): number => Date.parse('2026-01-01T00:00:00Z') };

it('an address that an agent released cools down also when the agent was killed and another one replayed its journal', async () => {
  world = await worldWith('10.0.0.0/24', 30);
  const first = await residentOn(world, { clock, warmPoolFloor: 0 });
  const used: string[] = [];
  for (const pod of PODS) used.push(await first.addPod(pod));
  await until(() => world.held().length === PODS.length, 'the addresses are recorded');
  world.isAway = true;
  for (const pod of PODS) await first.remove(pod);
  await first.kill();
  world.isAway = false;
  expect(world.held()).toHaveLength(PODS.length);
  const second = await residentOn(world, { of: first, clock, warmPoolFloor: 0 });
  await until(() => world.held().length === 0, 'the journal is replayed');
  expect(world.blocks().map(({ released }) => released.size)).toEqual([PODS.length]);
  expect(used).not.toContain(await second.addPod('e'));
});
