import { afterEach, expect, it } from 'vitest';
import { residentOn, type World, worldWith } from '../../../test/support/resident-world.ts';
import { until } from '../../../test/support/until.ts';
import { systemClock } from '../../base/clock.ts';
import { parseCidr } from '../../net/cidr.ts';
import { emptyBlock } from '../../model/ip-block.ts';
import { nodeName } from '../../../test/support/fixtures.ts';

/** Time that passes between two looks of the test. */
const PASSED_MS = 1000;
const never = new AbortController().signal;
let world: World;
afterEach(async () => world.end());

it('gives back empty blocks of pools that the node uses no more, and of pools that are gone, and keeps the others', async () => {
  world = await worldWith('10.0.0.0/24', 26);
  let laterMs = 0;
  const clock = {
    ...systemClock,
    monotonic: (): number => systemClock.monotonic() + laterMs,
    now: (): number => systemClock.now() + laterMs,
  };
  const ofNoPool = emptyBlock(parseCidr('10.9.0.0/26'), nodeName('n1'));
  await world.store().commit([{ kind: 'create-block', block: ofNoPool, pool: undefined }], never);
  const agent = await residentOn(world, { clock, warmPoolFloor: 0 });
  await agent.add('a');
  const hasBlocks = (count: number) => (): boolean => {
    laterMs += PASSED_MS;
    return world.blocks().length === count;
  };
  await until(hasBlocks(1), 'the block without a pool is given back');
  expect(world.held()).toHaveLength(1);
  await agent.remove('a');
  await until(hasBlocks(0), 'the block of the pool is given back');
  expect(await agent.add('b')).toHaveLength(1);
});
