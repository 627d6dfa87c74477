import { freeSlots, updateTo } from '../../../test/support/block-edits.ts';
import { readdir } from 'node:fs/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import type { AllocationStore } from '../../datastore/allocation-store.ts';
import { formatAddress } from '../../net/address.ts';
import { assign, dryRunAssign } from '../assign.ts';
import type { AssignedAddress } from '../plan-assign.ts';
import { releaseForGood } from '../release.ts';
import { handleOf } from '../../model/names.ts';
import { lockOf, nodeName } from '../../../test/support/fixtures.ts';
import { attachmentOf, requestOf } from '../../../test/support/ipam-bench.ts';
import { residentOn, type World, worldWith } from '../../../test/support/resident-world.ts';
import { until } from '../../../test/support/until.ts';

const signal = new AbortController().signal;
let world: World;
afterEach(async () => world.end());

describe('a resident node', () => {
  it('serves ADD and DEL from the warm pool without the datastore, and writes both later', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.add('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    world.calls.length = 0;
    const [address] = await agent.add('a');
    expect(world.calls).toEqual([]);
    await until(() => world.held().includes(address ?? ''), 'the address is written');
    await agent.remove('a');
    await until(() => !world.held().includes(address ?? ''), 'the release is written');
    expect(new Set(world.calls)).toEqual(new Set(['commit']));
    expect(world.calls.length).toBeLessThanOrEqual(2);
  });

  it('tells which addresses it has decided while the journal is being written, and before the datastore has them', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.add('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    const decided: string[] = [];
    let isRecorded = false;
    const ports = { store: agent.store, clock: systemClock, random: systemRandom, log: silentLog };
    const request = {
      ...requestOf('a', {}),
      onDecided: (assigned: readonly AssignedAddress[]) =>
        decided.push(...assigned.map(({ address }) => formatAddress(address)), String(isRecorded)),
    };
    const assigned = await assign(ports, request, { signal, cleanupSignal: signal });
    isRecorded = true;
    expect(decided).toEqual([...assigned.map(({ address }) => formatAddress(address)), 'false']);
  });

  it('returns the same address to the same attachment, before and after the write', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.add('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    const [once, again] = [await agent.add('a'), await agent.add('a')];
    expect(again).toEqual(once);
    await until(() => world.held().length === 2, 'both are written');
    expect(await agent.add('a')).toEqual(once);
  });

  it('assigns a requested address that is free and not pre-allocated, such as one released just now', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world, { warmPoolFloor: 4 });
    const [released = ''] = await agent.add('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    await agent.remove('first');
    expect(await agent.add('next', released)).toEqual([released]);
    expect(await agent.add('far', '10.0.0.63')).toEqual(['10.0.0.63']);
    await until(() => world.held().length === 2, 'both are written');
  });

  it('holds a requested address of a new block without owning the block, which goes with its last address', async () => {
    world = await worldWith('10.0.0.0/24', 26, true);
    const agent = await residentOn(world, { warmPoolFloor: 4 });
    const asked = ['10.0.0.1', '10.0.0.65', '10.0.0.129', '10.0.0.193'];
    for (const ip of asked) expect(await agent.add(ip, ip)).toEqual([ip]);
    await until(() => world.held().length === asked.length, 'all are written');
    expect(world.blocks().map(({ node, preallocated }) => [node, preallocated.size])).toEqual(
      asked.map(() => [undefined, 0]),
    );
    const other = await residentOn(world, { name: 'n2', warmPoolFloor: 0 });
    expect(await other.add('shop')).toHaveLength(1);
    expect(world.blocks().filter(({ node }) => node === 'n2')).toHaveLength(1);
    for (const ip of asked) await agent.remove(ip);
    await until(() => world.held().length === 1, 'all are released');
    await until(() => world.blocks().length === 1, 'only the block of the other node is left');
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

  it('makes few writes of ADDs that come one after another', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world, { warmPoolFloor: 40 });
    await agent.add('first');
    await until(() => world.preallocated() >= 40, 'addresses are pre-allocated');
    world.calls.length = 0;
    const startMs = systemClock.monotonic();
    for (let index = 0; index < 40; index += 1) {
      await agent.add(`c${String(index)}`);
      await systemClock.sleep(10, signal);
    }
    await until(() => world.held().length === 41, 'all are written');
    const tenths = (systemClock.monotonic() - startMs) / 100;
    expect(world.calls.filter((call) => call === 'commit').length).toBeLessThanOrEqual(1 + Math.ceil(tenths));
  });

  it('serves calls from the warm pool while the datastore is unavailable, fails ADD when it is empty, and always releases', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.add('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    const count = world.preallocated();
    world.isAway = true;
    const served: string[] = [];
    for (let index = 0; index < count; index += 1) served.push(...(await agent.add(`c${String(index)}`)));
    expect(new Set(served).size).toBe(count);
    await expect(agent.add('one too many')).rejects.toMatchObject({ code: 'store/unavailable' });
    const ports = { store: agent.store, clock: systemClock, random: systemRandom, log: silentLog };
    await expect(dryRunAssign(ports, requestOf('x', {}), signal)).rejects.toMatchObject({
      code: 'store/unavailable',
    });
    await agent.remove('c0');
    world.isAway = false;
    await until(() => world.held().length === count, 'the pending writes are flushed');
    expect(new Set(world.held())).toEqual(new Set([...(await agent.add('first')), ...served.slice(1)]));
  });

  it('reclaims its warm pool when it shuts down, and leaves no journal', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.add('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    await agent.add('a');
    await agent.node.drain(signal);
    expect(world.preallocated()).toBe(0);
    expect(world.held()).toHaveLength(2);
    await agent.node.end();
    expect(await readdir(agent.folder)).toEqual([]);
  });

  it('reclaims its warm pool when the datastore is locked, and assigns and releases nothing until it is unlocked', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    const [address] = await agent.add('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    const other = openMemoryStore(world.database);
    const beforeLock = await agent.store.readNodeView(nodeName('n1'), undefined, signal);
    await other.updateResource(lockOf('locked'), signal);
    await until(() => world.preallocated() === 0, 'the pre-allocated addresses are reclaimed');
    await expect(agent.add('a')).rejects.toMatchObject({ code: 'store/locked' });
    await expect(agent.remove('first')).rejects.toMatchObject({ code: 'store/locked' });
    expect(await agent.add('first')).toEqual([address]);
    const [before] = beforeLock.owned;
    if (before === undefined) throw new Error('no block');
    const after = freeSlots(before.value, new Set([...before.value.slots.values()].map(({ id }) => id)));
    expect(await agent.store.commit([updateTo(before, after)], signal)).toBe('conflict');
    expect([world.held(), world.preallocated()]).toEqual([[address], 0]);
    await other.updateResource(lockOf('unlocked'), signal);
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated again');
    await agent.remove('first');
    await until(() => world.held().length === 0, 'the release is written');
  });

  it('reclaims its warm pool when it observes the lock after the datastore was unavailable', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.add('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    world.isAway = true;
    const [address] = await agent.add('a');
    await openMemoryStore(world.database).updateResource(lockOf('locked'), signal);
    world.isAway = false;
    await until(() => world.preallocated() === 0, 'the pre-allocated addresses are reclaimed');
    expect(world.held()).toContain(address);
  });

  it('reclaims pre-allocated addresses when the pool is disabled', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.add('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    const store = openMemoryStore(world.database);
    const pool = await store.findResource({ kind: 'IPPool', name: 'v4' }, signal);
    if (pool === undefined) throw new Error('no pool');
    await store.updateResource({ ...pool, spec: { ...pool.spec, disabled: true } }, signal);
    await until(() => world.preallocated() === 0, 'no address is pre-allocated');
    await expect(agent.add('a')).rejects.toMatchObject({ code: 'ipam/exhausted' });
  });

  it('reclaims a pre-allocated address that another node needs', async () => {
    world = await worldWith('10.0.0.0/29', 29);
    const [one, two] = [await residentOn(world, { name: 'n1' }), await residentOn(world, { name: 'n2' })];
    await one.add('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    const borrowed: string[] = [];
    for (let index = 0; index < 7; index += 1) borrowed.push(...(await two.add(`b${String(index)}`)));
    expect(new Set(borrowed).size).toBe(7);
    await expect(two.add('one too many')).rejects.toMatchObject({ code: 'ipam/exhausted' });
    expect(world.held()).toHaveLength(8);
  });

  it('reclaims the specific address that a pod on another node requests', async () => {
    world = await worldWith('10.0.0.0/28', 28);
    const [one, two] = [await residentOn(world, { name: 'n1' }), await residentOn(world, { name: 'n2' })];
    await one.add('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    const [block] = world.blocks();
    const [ordinal = 0] = block?.preallocated.keys() ?? [];
    const address = `10.0.0.${String(ordinal)}`;
    expect(await two.add('wants it', address)).toEqual([address]);
  });

  it('names the node whose agent does not answer a request for a pre-allocated address', async () => {
    world = await worldWith('10.0.0.0/28', 28);
    const one = await residentOn(world, { name: 'n1' });
    await one.add('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    await one.node.end();
    const two = await residentOn(world, { name: 'n2' });
    const [ordinal = 0] = world.blocks()[0]?.preallocated.keys() ?? [];
    await expect(two.add('wants it', `10.0.0.${String(ordinal)}`)).rejects.toMatchObject({
      code: 'ipam/pre-allocated',
    });
  });

  it('releases an address that another process has just written and that the cache does not show yet', async () => {
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

  it('records an assigned address again when another writer has removed its pre-allocation', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.add('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
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

  it('is drained only after it has reclaimed the addresses that a write in progress pre-allocates', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const gate = { isShut: true, commits: 0 };
    const inner = openMemoryStore(world.database, {
      pause: async (operation) => {
        if (operation !== 'commit') return;
        gate.commits += 1;
        // The second agent reclaims what the first one pre-allocated.
        if (gate.commits === 2) await until(() => !gate.isShut, 'the write may go on');
      },
    });
    const agent = await residentOn(world, { inner });
    await agent.add('first');
    await until(() => gate.commits === 2, 'the write is under way');
    const drained = agent.node.drain(signal);
    gate.isShut = false;
    await drained;
    expect(world.preallocated()).toBe(0);
  });
});

async function view(store: AllocationStore): ReturnType<AllocationStore['readNodeView']> {
  return store.readNodeView(nodeName('n1'), undefined, signal);
}
