import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { nodeName, poolOf } from '../../../test/support/fixtures.ts';
import { requestOf } from '../../../test/support/ipam-bench.ts';
import { overriding } from '../../../test/support/overriding.ts';
import { type Resident, residentOn, type World, worldWith } from '../../../test/support/resident-world.ts';
import { until } from '../../../test/support/until.ts';
import { systemClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import type { Store } from '../../datastore/store.ts';
import type { Allocation } from '../../model/ip-block.ts';
import { assign, type IpamPorts } from '../assign.ts';
import { release } from '../release.ts';

const signal = new AbortController().signal;
let world: World;
afterEach(async () => world.end());

describe('an address that another program released while its pod runs', () => {
  /** Called before each list of the records. */
  let beforeList: () => Promise<unknown>;
  let agent: Resident;
  let before: Allocation;

  beforeEach(async () => {
    world = await worldWith('10.0.0.0/29', 29);
    beforeList = async () => Promise.resolve();
    const inner = world.store();
    const follow: Store['follow'] = async function* (queries, options) {
      await beforeList();
      yield* inner.follow(queries, options);
    };
    agent = await residentOn(world, { inner: overriding(inner, { follow }), warmPoolFloor: 0 });
    await agent.addPod('a', 'db-0');
    await until(isHeld, 'it is recorded');
    before = slot();
    await until(() => agent.node.state.waiting === 0, 'nothing is pending');
  });

  const slot = (): Allocation => {
    const [found] = world.blocks().flatMap((block) => [...block.slots.values()]);
    if (found === undefined) throw new Error('nothing is held');
    return found;
  };
  const isHeld = (): boolean => world.blocks().some(({ slots }) => slots.size > 0);
  const store = (): Store => openMemoryStore(world.database);
  const ports = (): IpamPorts => ({ store: store(), clock: systemClock, random: systemRandom, log: silentLog });
  const lose = async (): Promise<void> => {
    await release(ports(), { node: nodeName('n1'), which: ({ id }) => id === before.id }, signal);
  };
  const whileAway = async (work: () => Promise<unknown>): Promise<void> => {
    world.isAway = true;
    await work();
    await until(() => agent.node.state.problem !== undefined, 'the watch is down');
    world.isAway = false;
  };

  const restartWatch = async (): Promise<void> =>
    whileAway(async () => store().createResource(poolOf('other', '10.1.0.0/24'), signal));

  // One that was found in use is never released without a grace period, and after that one only where its pod is known.
  it.each<[string, () => Promise<void>]>([
    ['while it is followed', lose],
    ['while the watch is down', async () => whileAway(lose)],
    [
      'between the check and the list',
      async () => {
        beforeList = async () => {
          beforeList = async () => Promise.resolve();
          await lose();
        };
        await restartWatch();
      },
    ],
  ])('%s is recorded again under a new id, for the same pod, as one that was found in use', async (_, act) => {
    await act();
    await until(() => isHeld() && slot().id !== before.id, 'it is recorded again');
    expect(slot()).toEqual({ ...before, considered: undefined, id: expect.any(String), chosenBy: 'living-link' });
  });

  it('counts as found in use although the datastore looks as if it was restored: its block has gone', async () => {
    await whileAway(async () => {
      await lose();
      const { owned } = await store().readNodeView(nodeName('n1'), undefined, signal);
      await store().commit(
        owned.map((block) => ({ kind: 'delete-block', before: block })),
        signal,
      );
    });
    await until(isHeld, 'it is recorded again');
    expect(slot()).toMatchObject({ id: before.id, chosenBy: 'living-link', pod: 'db-0' });
  });

  it('is recorded again for the same pod when the one that had it meanwhile has ended', async () => {
    const [address = ''] = world.held();
    await whileAway(async () => {
      await lose();
      await assign(ports(), requestOf('b', { node: 'n2', ip: address }), { signal, cleanupSignal: signal });
    });
    await until(() => agent.node.state.warnings.length > 0, 'the conflict is reported');
    await release(ports(), { node: nodeName('n2'), which: () => true }, signal);
    await restartWatch();
    await until(isHeld, 'it is recorded again');
    expect(slot()).toMatchObject({ containerId: 'a', chosenBy: 'living-link', pod: 'db-0' });
  });

  it('stays reported while the links of the node cannot be listed', async () => {
    const [address = ''] = world.held();
    await whileAway(async () => {
      await lose();
      await assign(ports(), requestOf('b', { node: 'n2', ip: address }), { signal, cleanupSignal: signal });
    });
    await until(() => agent.node.state.warnings.length > 0, 'the conflict is reported');
    const { warnings } = agent.node.state;
    const { links } = agent;
    const list = links.keys.bind(links);
    links.keys = () => {
      throw new Error('EMFILE: too many open files');
    };
    expect(agent.node.state.warnings).toEqual(warnings);
    links.clear();
    links.keys = list;
    expect(agent.node.state.warnings).toEqual([]);
  });
});
