import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import type { Log } from '../../base/log.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import type { ClusterInformation } from '../../model/cluster-information.ts';
import { nodeName } from '../../../test/support/fixtures.ts';
import { type Resident, residentOn, World, worldWith } from '../../../test/support/resident-world.ts';
import { until } from '../../../test/support/until.ts';
import { datastoreIdOf } from './datastore-id.ts';

const signal = new AbortController().signal;
const PODS = ['a', 'b', 'c', 'd', 'e', 'f'];
let world: World;
afterEach(async () => world.end());

async function addPods(agent: Resident, names: readonly string[]): Promise<string[]> {
  const told: string[] = [];
  for (const name of names) told.push(`${name} ${await agent.addPod(name)}`);
  return told;
}

const published = async (told: readonly string[]): Promise<void> =>
  until(() => told.every((line) => world.holders().includes(line)), 'everything is written');

/** A log that remembers what it was told. */
function remembering(): { readonly log: Log; readonly events: string[] } {
  const events: string[] = [];
  const note = (event: string): void => void events.push(event);
  return { log: { error: note, warning: note, info: note, debug: () => undefined }, events };
}

describe('a resident node whose datastore was restored from a backup', () => {
  it('records again what its pods use before it offers anything', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.addPod('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    const backup = world.database.backUp();
    const before = await addPods(agent, PODS);
    await published(before);
    world.database.restore(backup);
    const after = await addPods(
      agent,
      PODS.map((name) => `${name}2`),
    );
    await published([...before, ...after]);
    const addresses = [...before, ...after].map((line) => line.split(' ')[1]);
    expect(new Set(addresses).size).toBe(12);
    for (const name of PODS) await agent.remove(name);
    await until(() => world.held().length === 7, 'the addresses of the first six are released');
  });

  it('does so when it was started again meanwhile', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.addPod('first');
    const backup = world.database.backUp();
    const before = await addPods(agent, PODS);
    await published(before);
    await agent.kill();
    world.database.restore(backup);
    const next = await residentOn(world, { of: agent });
    const after = await addPods(
      next,
      PODS.map((name) => `${name}2`),
    );
    await published([...before, ...after]);
    expect(new Set([...before, ...after].map((line) => line.split(' ')[1])).size).toBe(12);
  });

  it('claims its block again when the backup knows nothing of it, and another node does not take it meanwhile', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const backup = world.database.backUp();
    const [one, two] = [await residentOn(world, { name: 'n1' }), await residentOn(world, { name: 'n2' })];
    const before = [...(await addPods(one, PODS)), ...(await addPods(two, ['g', 'h']))];
    await published(before);
    world.database.restore(backup);
    const after = (await Promise.all([addPods(one, ['a2', 'b2']), addPods(two, ['g2', 'h2'])])).flat();
    await published([...before, ...after]);
    expect(new Set([...before, ...after].map((line) => line.split(' ')[1])).size).toBe(12);
    expect(
      world
        .blocks()
        .map(({ node }) => node)
        .sort(),
    ).toEqual(['n1', 'n2']);
  });

  it('records what another main plugin uses without a link of ours', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.addPod('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    const backup = world.database.backUp();
    const [address = ''] = await agent.add('under ptp');
    await published([`under ptp ${address}`]);
    world.database.restore(backup);
    const after = await addPods(agent, PODS);
    await published([`under ptp ${address}`, ...after]);
    expect(after.map((line) => line.split(' ')[1])).not.toContain(address);
  });

  it('reports an address that another node has assigned meanwhile, and changes no allocation', async () => {
    world = await worldWith('10.0.0.0/29', 29);
    const { log, events } = remembering();
    const backup = world.database.backUp();
    const one = await residentOn(world, { name: 'n1', log });
    const told = await one.addPod('a');
    await published([`a ${told}`]);
    await one.kill();
    world.database.restore(backup);
    const two = await residentOn(world, { name: 'n2', warmPoolFloor: 0 });
    expect(await two.addPod('b')).toBe(told);
    await published([`b ${told}`]);
    const again = await residentOn(world, { of: one, name: 'n1', log });
    await until(() => events.includes('address conflict found'), 'the conflict is reported');
    expect(world.holders()).toContain(`b ${told}`);
    expect(await again.addPod('c')).not.toBe(told);
    expect(again.node.state.warnings).toEqual([
      expect.stringMatching(`container "a" of this node uses ${told}, which is held by .* on node "n2"`),
    ]);
    // The kubelet ends it.
    await again.remove('a');
    expect(again.node.state.warnings).toEqual([]);
  });

  it('keeps what its journal says although the backup does not know the block', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const backup = world.database.backUp();
    const agent = await residentOn(world);
    await agent.addPod('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    world.isAway = true;
    const told = await addPods(agent, ['a', 'b', 'c']);
    await agent.kill();
    world.database.restore(backup);
    world.isAway = false;
    const next = await residentOn(world, { of: agent });
    const after = await addPods(next, ['d', 'e']);
    await published([...told, ...after]);
    expect(new Set([...told, ...after].map((line) => line.split(' ')[1])).size).toBe(5);
  });
  it('keeps what its journal says of attachments without a link although the backup does not know the block', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const backup = world.database.backUp();
    const agent = await residentOn(world);
    await agent.addPod('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    world.isAway = true;
    const [address = ''] = await agent.add('under ptp');
    await agent.kill();
    world.database.restore(backup);
    world.isAway = false;
    const next = await residentOn(world, { of: agent });
    const after = await addPods(next, PODS);
    await published([`under ptp ${address}`, ...after]);
    expect(after.map((line) => line.split(' ')[1])).not.toContain(address);
  });
});

describe('a resident node without its datastore', () => {
  it('hands out every free address of its block, and the datastore has each of them afterwards', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world, { warmPoolFloor: 256 });
    const told = await addPods(agent, ['first']);
    await until(() => world.preallocated() === 63, 'the whole block is pre-allocated');
    world.isAway = true;
    const names = Array.from({ length: 63 }, (_, index) => `c${String(index)}`);
    told.push(...(await addPods(agent, names)));
    await expect(agent.addPod('one too many')).rejects.toMatchObject({ code: 'store/unavailable' });
    world.isAway = false;
    await published(told);
    expect(new Set(told.map((line) => line.split(' ')[1])).size).toBe(64);
  });

  it('never shares an address with a node that still reaches the datastore and finds the pool full', async () => {
    world = await worldWith('10.0.0.0/28', 28);
    const one = await residentOn(world, { name: 'n1', warmPoolFloor: 256 });
    const told = await addPods(one, ['first']);
    await until(() => world.preallocated() === 15, 'the whole block is pre-allocated');
    const cutOff = new World();
    Object.assign(cutOff, { database: world.database });
    const two = await residentOn(cutOff, { name: 'n2', warmPoolFloor: 256 });
    world.isAway = true;
    const [alone, others] = await Promise.all([
      addPods(one, PODS),
      Promise.allSettled(PODS.map(async (name) => two.addPod(`${name} there`))),
    ]);
    told.push(...alone);
    expect(others.every(({ status }) => status === 'rejected')).toBe(true);
    world.isAway = false;
    await published(told);
    expect(await two.addPod('afterwards')).toMatch(/^10\.0\.0\./);
    await cutOff.end();
  }, 120_000);
});

describe('the runs and journals of a node', () => {
  it('of another running agent are left unchanged, with its pre-allocated addresses', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const one = await residentOn(world);
    await one.addPod('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    // The other datastore of the same node, in the same state folder.
    const elsewhere = await worldWith('10.1.0.0/24', 26);
    const two = await residentOn(elsewhere, { of: one, datastore: datastoreIdOf('kvv3', 'two') });
    await two.add('there');
    const ids = [...(world.blocks()[0]?.preallocated.values() ?? [])];
    await two.node.end();
    const journals = readdirSync(one.folder).filter((name) => name.includes(ids[0]?.split('#')[0] ?? '?'));
    expect(journals).toHaveLength(1);
    await elsewhere.end();
  });

  it('of an agent on another machine keep their pre-allocated addresses for ten minutes', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const one = await residentOn(world, { host: { machine: 'old', boot: 'one' } });
    await one.addPod('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    const ids = [...(world.blocks()[0]?.preallocated.values() ?? [])];
    await one.kill();
    const { log, events } = remembering();
    const two = await residentOn(world, { host: { machine: 'new', boot: 'one' }, log });
    await two.addPod('second');
    expect([...(world.blocks()[0]?.preallocated.values() ?? [])]).toEqual(expect.arrayContaining(ids));
    expect(events).toContain('foreign warm pool kept');
  });

  it('keep a damaged journal, replay the other journals, and keep the pre-allocated addresses of the damaged run', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world, { warmPoolFloor: 8 });
    await agent.addPod('first');
    await until(() => world.preallocated() >= 8, 'addresses are pre-allocated');
    world.isAway = true;
    const told = await addPods(agent, ['a', 'b', 'c']);
    await agent.kill();
    world.isAway = false;
    const [name = ''] = readdirSync(agent.folder);
    const path = join(agent.folder, name);
    const lines = readFileSync(path, 'utf8').split('\n');
    writeFileSync(path, lines.map((line, index) => (index === 2 ? line.replace('take', 'tame') : line)).join('\n'));
    // The links tell nothing of the second: it is of another main plugin.
    agent.links.delete('b/eth0');
    const { log, events } = remembering();
    const next = await residentOn(world, { of: agent, log });
    await next.addPod('d');
    await published([told[0] ?? '', told[2] ?? '']);
    const lost = told[1]?.split(' ')[1] ?? '';
    expect(world.held()).not.toContain(lost);
    for (const other of ['e', 'f', 'g', 'h', 'i', 'j', 'k', 'l']) expect(await next.addPod(other)).not.toBe(lost);
    expect(events).toContain('journal damaged');
    expect(readdirSync(agent.folder)).toContainEqual(expect.stringMatching(/\.damaged$/));
  });

  it('leave the journal of a newer release, which goes on with it when it is back', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const newer = await residentOn(world, { warmPoolFloor: 8 });
    await newer.addPod('first');
    await until(() => world.preallocated() >= 8, 'addresses are pre-allocated');
    world.isAway = true;
    const told = await addPods(newer, ['a', 'b', 'c']);
    await newer.kill();
    world.isAway = false;
    const [name = ''] = readdirSync(newer.folder);
    const path = join(newer.folder, name);
    const known = readFileSync(path, 'utf8');
    const unknown = known.replace(/^\w{8} (.*)\n/, (_, header: string) => {
      const text = header.replace('"format":2', '"format":3');
      return `${crc32(text).toString(16).padStart(8, '0')} ${text}\n`;
    });
    writeFileSync(path, unknown);
    const ids = [...(world.blocks()[0]?.preallocated.values() ?? [])];
    const { log, events } = remembering();
    const older = await residentOn(world, { of: newer, log });
    const others: string[] = [];
    for (const other of ['d', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l']) others.push(await older.addPod(other));
    expect(others.filter((address) => told.some((each) => each.endsWith(` ${address}`)))).toEqual([]);
    expect([...(world.blocks()[0]?.preallocated.values() ?? [])]).toEqual(expect.arrayContaining(ids.slice(3)));
    expect(events).toContain('journals of a newer release kept');
    expect(readFileSync(path, 'utf8')).toBe(unknown);
    await older.kill();
    writeFileSync(path, known);
    const back = await residentOn(world, { of: older });
    await published(told);
    await until(
      () => [...(world.blocks()[0]?.preallocated.values() ?? [])].every((id) => !ids.includes(id)),
      'nothing is pre-allocated by the run that has ended',
    );
    expect(readdirSync(back.folder)).not.toContain(name);
    const held = world.held();
    expect(new Set(held).size).toBe(held.length);
    expect(held).toHaveLength(1 + told.length + others.length);
  });

  it('refuse to write when the datastore holds the records of another cluster', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const agent = await residentOn(world);
    await agent.addPod('first');
    const store = openMemoryStore(world.database);
    const which = { kind: 'ClusterInformation', name: 'default' } as const;
    const cluster = (await store.findResource(which, signal)) as ClusterInformation;
    expect(cluster.spec.clusterGUID).toBe('one');
    const { resourceVersion: _, ...metadata } = cluster.metadata;
    const other = { ...cluster, metadata, spec: { ...cluster.spec, clusterGUID: 'two' } };
    await store.updateResource(other, signal);
    await until(() => agent.node.state.problem?.includes('kvv3:two') === true, 'the agent noticed');
    await expect(agent.addPod('a')).rejects.toMatchObject({ code: 'store/replaced' });
    await store.updateResource({ ...cluster, metadata }, signal);
    await until(() => agent.node.state.problem === undefined, 'the agent goes on');
    await agent.addPod('a');
  });

  it('reclaim the pre-allocated addresses of a run on this machine whose journal was removed', async () => {
    world = await worldWith('10.0.0.0/24', 26);
    const store = openMemoryStore(world.database);
    const one = await residentOn(world);
    await one.addPod('first');
    await until(() => world.preallocated() >= 4, 'addresses are pre-allocated');
    const ids = new Set(world.blocks()[0]?.preallocated.values());
    await one.kill();
    const two = await residentOn(world, { of: one });
    await two.addPod('second');
    await until(() => ![...(world.blocks()[0]?.preallocated.values() ?? [])].some((id) => ids.has(id)), 'given back');
    const { owned } = await store.readNodeView(nodeName('n1'), undefined, signal);
    expect(owned).toHaveLength(1);
  });
});
