import { freeSlots, updateTo } from '../../../test/support/block-edits.ts';
import { readdir } from 'node:fs/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import type { AllocationStore } from '../../datastore/allocation-store.ts';
import { assign, rehearseAssign } from '../assign.ts';
import { releaseForGood } from '../release.ts';
import { handleOf } from '../../model/names.ts';
import { lockOf, nodeName } from '../../../test/support/fixtures.ts';
import { attachmentOf, requestOf } from '../../../test/support/ipam-bench.ts';
import { residentOn, type World, worldWith } from '../../../test/support/resident-world.ts';
import { until } from '../../../test/support/until.ts';

const signal = AbortSignal.timeout(120_000);
let world: World;
afterEach(async () => world.end());

describe('a resident node', () => {
  it('asks the datastore for nothing in a warm ADD and DEL, and publishes both', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.add('first');
    await until(() => world.stock() >= 4, 'there is stock');
    world.calls.length = 0;
    const [address] = await agent.add('a');
    expect(world.calls).toEqual([]);
    await until(() => world.held().includes(address ?? ''), 'the address is published');
    await agent.remove('a');
    await until(() => !world.held().includes(address ?? ''), 'the release is published');
    expect(new Set(world.calls)).toEqual(new Set(['commit']));
    expect(world.calls.length).toBeLessThanOrEqual(2);
  });

  it('gives the same address again to the same attachment, published or not', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.add('first');
    await until(() => world.stock() >= 4, 'there is stock');
    const [once, again] = [await agent.add('a'), await agent.add('a')];
    expect(again).toEqual(once);
    await until(() => world.held().length === 2, 'both are published');
    expect(await agent.add('a')).toEqual(once);
  });

  it('makes one write of many ADDs at once', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world, { warmPoolFloor: 0 });
    await agent.add('first');
    world.calls.length = 0;
    const addresses = await Promise.all(Array.from({ length: 30 }, async (_, index) => agent.add(`c${String(index)}`)));
    expect(new Set(addresses.flat()).size).toBe(30);
    expect(world.calls.filter((call) => call === 'commit').length).toBeLessThan(10);
  });

  it('goes on without the datastore until the stock is used up, then says so, and releases without end', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.add('first');
    await until(() => world.stock() >= 4, 'there is stock');
    const stock = world.stock();
    world.isAway = true;
    const served: string[] = [];
    for (let index = 0; index < stock; index += 1) served.push(...(await agent.add(`c${String(index)}`)));
    expect(new Set(served).size).toBe(stock);
    await expect(agent.add('one too many')).rejects.toMatchObject({ code: 'store/unavailable' });
    const ports = { store: agent.store, clock: systemClock, random: systemRandom, log: silentLog };
    await expect(rehearseAssign(ports, requestOf('x', {}), signal)).rejects.toMatchObject({
      code: 'store/unavailable',
    });
    await agent.remove('c0');
    world.isAway = false;
    await until(() => world.held().length === stock, 'what happened meanwhile is published');
    expect(new Set(world.held())).toEqual(new Set([...(await agent.add('first')), ...served.slice(1)]));
  });

  it('gives its stock back when it ends, and leaves no journal', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.add('first');
    await until(() => world.stock() >= 4, 'there is stock');
    await agent.add('a');
    await agent.node.drain(signal);
    expect(world.stock()).toBe(0);
    expect(world.held()).toHaveLength(2);
    await agent.node.end();
    expect(await readdir(agent.folder)).toEqual([]);
  });

  it('gives its stock back when the datastore is locked, and hands out and takes nothing until that ends', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    const [address] = await agent.add('first');
    await until(() => world.stock() >= 4, 'there is stock');
    const other = openMemoryStore(world.database);
    const beforeLock = await agent.store.readNodeView(nodeName('n1'), undefined, signal);
    await other.updateResource(lockOf('locked'), signal);
    await until(() => world.stock() === 0, 'the stock is given back');
    await expect(agent.add('a')).rejects.toMatchObject({ code: 'store/locked' });
    await expect(agent.remove('first')).rejects.toMatchObject({ code: 'store/locked' });
    expect(await agent.add('first')).toEqual([address]);
    const [before] = beforeLock.owned;
    if (before === undefined) throw new Error('no block');
    const after = freeSlots(before.value, new Set([...before.value.slots.values()].map(({ id }) => id)));
    expect(await agent.store.commit([updateTo(before, after)], signal)).toBe('conflict');
    expect([world.held(), world.stock()]).toEqual([[address], 0]);
    await other.updateResource(lockOf('unlocked'), signal);
    await until(() => world.stock() >= 4, 'there is stock again');
    await agent.remove('first');
    await until(() => world.held().length === 0, 'the release is published');
  });

  it('gives its stock back when it learns of the lock only after the datastore was away', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.add('first');
    await until(() => world.stock() >= 4, 'there is stock');
    world.isAway = true;
    const [address] = await agent.add('a');
    await openMemoryStore(world.database).updateResource(lockOf('locked'), signal);
    world.isAway = false;
    await until(() => world.stock() === 0, 'the stock is given back');
    expect(world.held()).toContain(address);
  });

  it('gives stock back when the pool is disabled', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.add('first');
    await until(() => world.stock() >= 4, 'there is stock');
    const store = openMemoryStore(world.database);
    const pool = await store.findResource({ kind: 'IPPool', name: 'v4' }, signal);
    if (pool === undefined) throw new Error('no pool');
    await store.updateResource({ ...pool, spec: { ...pool.spec, disabled: true } }, signal);
    await until(() => world.stock() === 0, 'nothing is set aside');
    await expect(agent.add('a')).rejects.toMatchObject({ code: 'ipam/exhausted' });
  });

  it('gives up stock that another node needs', async () => {
    world = await worldWith('10.0.0.0/29', 29);
    const [one, two] = [await residentOn(world, { name: 'n1' }), await residentOn(world, { name: 'n2' })];
    await one.add('first');
    await until(() => world.stock() >= 4, 'there is stock');
    const borrowed: string[] = [];
    for (let index = 0; index < 7; index += 1) borrowed.push(...(await two.add(`b${String(index)}`)));
    expect(new Set(borrowed).size).toBe(7);
    await expect(two.add('one too many')).rejects.toMatchObject({ code: 'ipam/exhausted' });
    expect(world.held()).toHaveLength(8);
  });

  it('gives up the very address that is asked for on another node', async () => {
    world = await worldWith('10.0.0.0/28', 28);
    const [one, two] = [await residentOn(world, { name: 'n1' }), await residentOn(world, { name: 'n2' })];
    await one.add('first');
    await until(() => world.stock() >= 4, 'there is stock');
    const [block] = world.blocks();
    const [ordinal = 0] = block?.preallocated.keys() ?? [];
    const address = `10.0.0.${String(ordinal)}`;
    expect(await two.add('wants it', address)).toEqual([address]);
  });

  it('says who holds up what is set aside by an agent that is gone', async () => {
    world = await worldWith('10.0.0.0/28', 28);
    const one = await residentOn(world, { name: 'n1' });
    await one.add('first');
    await until(() => world.stock() >= 4, 'there is stock');
    await one.node.end();
    const two = await residentOn(world, { name: 'n2' });
    const [ordinal = 0] = world.blocks()[0]?.preallocated.keys() ?? [];
    await expect(two.add('wants it', `10.0.0.${String(ordinal)}`)).rejects.toMatchObject({ code: 'ipam/set-aside' });
  });

  it('releases for good what somebody else wrote a moment ago, although memory does not show it yet', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.add('first');
    const ports = { clock: systemClock, random: systemRandom, log: silentLog };
    const store = openMemoryStore(world.database);
    const [before] = world.held();
    await assign({ ...ports, store }, requestOf('alone', { node: 'n1' }), { signal, cleanupSignal: signal });
    const handle = handleOf(attachmentOf('alone'));
    const stale = { ...agent.store, readNodeView: async () => ({ ...(await view(agent.store)), owned: [] }) };
    const which = ({ handle: held }: { handle: string }): boolean => held === handle;
    const freed = await releaseForGood({ ...ports, store: stale }, { node: nodeName('n1'), which }, signal);
    expect(freed).toHaveLength(1);
    expect(world.held()).toEqual([before]);
  });

  it('records an address again whose stock was taken from under it', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.add('first');
    await until(() => world.stock() >= 4, 'there is stock');
    world.isAway = true;
    const [address = ''] = await agent.add('a');
    const store = openMemoryStore(world.database);
    const { owned } = await store.readNodeView(nodeName('n1'), undefined, signal);
    const before = owned[0];
    if (before === undefined) throw new Error('no block');
    const after = {
      ...before.value,
      preallocated: new Map(),
      queue: [...before.value.preallocated.keys(), ...before.value.queue],
    };
    await store.commit([updateTo(before, after)], signal);
    world.isAway = false;
    await until(() => world.held().includes(address), 'the address is recorded');
    expect(world.held()).toHaveLength(2);
  });

  it('is drained only when it has given back what a write under way sets aside', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const gate = { isShut: true, commits: 0 };
    const inner = openMemoryStore(world.database, {
      pause: async (operation) => {
        if (operation !== 'commit') return;
        gate.commits += 1;
        // The second one sets the first stock aside.
        if (gate.commits === 2) await until(() => !gate.isShut, 'the write may go on');
      },
    });
    const agent = await residentOn(world, { inner });
    await agent.add('first');
    await until(() => gate.commits === 2, 'the write is under way');
    const drained = agent.node.drain(signal);
    gate.isShut = false;
    await drained;
    expect(world.stock()).toBe(0);
  });
});

async function view(store: AllocationStore): ReturnType<AllocationStore['readNodeView']> {
  return store.readNodeView(nodeName('n1'), undefined, signal);
}
