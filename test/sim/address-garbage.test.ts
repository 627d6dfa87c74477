import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../src/base/random.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { DATASTORES, GarbageWorld, GRACE_MS, PERIOD_MS } from '../support/garbage-world.ts';

/** Nodes of the orchestrator, and one machine besides. */
const NODES = ['n1', 'n2', 'n3'];
const FOREIGN = 'podman-host';
/** One pass finds an address, and one after the grace period releases it. */
const PASSES = Math.ceil(GRACE_MS / PERIOD_MS) + 2;

const name = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f');
const node = fc.constantFrom(...NODES);
const askedBy = (pod: string): string => `10.0.0.${String(200 + 'abcdef'.indexOf(pod))}`;
type Step = (world: GarbageWorld) => Promise<void> | void;
const step: fc.Arbitrary<{ readonly what: string; readonly take: Step }> = fc.oneof(
  fc.tuple(name, node).map(([pod, on]) => ({
    what: `add ${pod} on ${on}`,
    take: async (w: GarbageWorld) => void (await w.addPod(pod, on)),
  })),
  fc.tuple(name, node).map(([pod, on]) => ({
    what: `add ${pod} on ${on}, which asks for its address`,
    take: async (w: GarbageWorld) => void (await w.addPod(pod, on, askedBy(pod))),
  })),
  node.map((on) => ({ what: `look at ${on}`, take: async (w: GarbageWorld) => void (await w.lookAt(on)) })),
  node.map((on) => ({ what: `turn ${on} off`, take: (w: GarbageWorld) => w.turnOff(on) })),
  node.map((on) => ({ what: `static on ${on}`, take: async (w: GarbageWorld) => w.addStaticPod(`static-${on}`, on) })),
  node.map((on) => ({ what: `no mirror on ${on}`, take: (w: GarbageWorld) => w.deletePod(`static-${on}`, 'leak') })),
  name.map((pod) => ({ what: `delete ${pod}, leak`, take: (w: GarbageWorld) => w.deletePod(pod, 'leak') })),
  name.map((pod) => ({ what: `force ${pod}`, take: (w: GarbageWorld) => w.deletePod(pod, 'force') })),
  name.map((pod) => ({ what: `finish ${pod}, leak`, take: (w: GarbageWorld) => w.deletePod(pod, 'finish') })),
  name.map((pod) => ({ what: `release ${pod}`, take: async (w: GarbageWorld) => w.releasePod(pod) })),
  node.map((on) => ({ what: `partition ${on}`, take: (w: GarbageWorld) => w.partition(on) })),
  node.map((on) => ({ what: `heal ${on}`, take: (w: GarbageWorld) => w.heal(on) })),
  node.map((on) => ({ what: `take ${on} out of service`, take: (w: GarbageWorld) => w.takeOutOfService(on) })),
  node.map((on) => ({ what: `remove ${on}`, take: (w: GarbageWorld) => w.removeNode(on) })),
  node.map((on) => ({ what: `add ${on}`, take: (w: GarbageWorld) => w.addNode(on) })),
  node.map((on) => ({
    what: `tunnel on ${on}`,
    take: async (w: GarbageWorld) => (w.nodes.includes(on) ? w.addTunnel(on) : undefined),
  })),
  fc
    .boolean()
    .map((is) => ({ what: `cache frozen: ${String(is)}`, take: (w: GarbageWorld) => void (w.isCacheFrozen = is) })),
  fc.boolean().map((is) => ({ what: `API down: ${String(is)}`, take: (w: GarbageWorld) => void (w.isApiDown = is) })),
  fc
    .constantFrom(...DATASTORES)
    .map((is) => ({ what: `datastore ${is}`, take: (w: GarbageWorld) => void (w.datastore = is) })),
  fc.constant({ what: 'restart', take: (w: GarbageWorld) => w.restart() }),
  fc
    .integer({ min: -1e9, max: 1e9 })
    .map((ms) => ({ what: `wall clock ${String(ms)}`, take: (w: GarbageWorld) => w.jumpWallClock(ms) })),
  fc
    .integer({ min: 1, max: 3 * GRACE_MS })
    .map((ms) => ({ what: `pause ${String(ms)}`, take: (w: GarbageWorld) => w.advance(ms) })),
  fc.constant({ what: 'pass', take: async (w: GarbageWorld) => void (await w.pass()) }),
  {
    weight: 5,
    arbitrary: fc.integer({ min: 1, max: PASSES }).map((count) => ({
      what: `${String(count)} periods`,
      take: async (w: GarbageWorld) => {
        for (let each = 0; each < count; each += 1) await w.period();
      },
    })),
  },
);

describe('garbage collection of addresses', () => {
  it('releases nothing that is in use, and all that is not, whatever comes and goes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const world = await GarbageWorld.with('10.0.0.0/24', 29);
        for (const each of NODES) world.addNode(each);
        await world.addContainer('n1');
        await world.addContainer(FOREIGN);
        for (const { take } of steps) await take(world);
        // All is well again, and a node that was removed stays so.
        world.isApiDown = false;
        world.isCacheFrozen = false;
        world.datastore = 'up';
        for (const each of world.nodes) world.heal(each);
        world.advance(GRACE_MS);
        for (let pass = 0; pass < PASSES; pass += 1) await world.period();
        expect(world.dead()).toEqual([]);
        // What ended with the machine of a node that came back, its agent may release.
        const hasReturned = world.nodes.includes('n1') && steps.some(({ what }) => what === 'remove n1');
        expect(world.others().length).toBeGreaterThanOrEqual(hasReturned ? 1 : 2);
        for (const each of NODES.filter((on) => on !== 'n1' && !world.nodes.includes(on)))
          expect(world.blocksOf(each)).toEqual([]);
        expect(world.blocksOf(FOREIGN)).toHaveLength(1);
      }),
      { numRuns: 1000 },
    );
  });

  it('starts to count again when it could not look: a node may have been cut off meanwhile', async () => {
    const world = await GarbageWorld.with('10.0.0.0/24', 29);
    world.addNode('n1');
    await world.addPod('a', 'n1');
    world.takeOutOfService('n1');
    expect((await world.pass())?.found).toHaveLength(1);
    world.isApiDown = true;
    world.advance(2 * GRACE_MS);
    world.isApiDown = false;
    expect(await world.pass()).toMatchObject({ found: [expect.anything()], 'after-grace': [] });
    for (let pass = 0; pass < PASSES; pass += 1) await world.period();
    expect(world.dead()).toEqual([]);
  });

  it('releases nothing living and all that nodes held that are gone, of 1 000 nodes and 10 000 addresses, in time', async () => {
    const world = await GarbageWorld.with('10.0.0.0/16', 28);
    world.areAgentsOn = false;
    const random = seededRandom(7);
    const pick = (of: readonly string[]): string => of[random.int(of.length)] ?? '';
    const nodes = Array.from({ length: 1000 }, (_, index) => `n${String(index)}`);
    for (const [index, each] of nodes.entries()) {
      const block = parseCidr(`10.0.${String(Math.floor(index / 16))}.${String((index % 16) * 16)}/28`);
      const pods = Array.from({ length: 10 }, (_, pod) => `${each}-p${String(pod)}`);
      await world.addNodeWith(each, block, pods);
    }
    for (let round = 0; round < 12; round += 1) {
      for (let each = 0; each < 300; each += 1)
        world.deletePod(pick(world.pods), random.int(4) === 0 ? 'finish' : 'leak');
      for (let each = 0; each < 30; each += 1) world.removeNode(pick(world.nodes));
      for (let each = 0; each < 10; each += 1) world.addNode(pick(nodes));
      for (let each = 0; each < 100; each += 1)
        await world.addPod(`new-${String(round)}-${String(each)}`, pick(world.nodes));
      for (let each = 0; each < 10; each += 1) world.partition(pick(world.nodes));
      for (let each = 0; each < 5; each += 1) world.heal(pick(world.nodes));
      world.isCacheFrozen = random.int(2) === 0;
      world.isApiDown = random.int(4) === 0;
      world.datastore = DATASTORES[random.int(DATASTORES.length)] ?? 'up';
      if (random.int(5) === 0) world.restart();
      await world.period();
    }
    world.isCacheFrozen = false;
    world.isApiDown = false;
    world.datastore = 'up';
    for (const each of world.nodes) world.heal(each);
    world.advance(GRACE_MS);
    world.removeNode(pick(world.nodes));
    expect(world.heldOnGoneNodes().length).toBeGreaterThan(0);
    for (let pass = 0; pass < PASSES; pass += 1) await world.period();
    expect(world.heldOnGoneNodes()).toEqual([]);
    for (const each of nodes.filter((on) => !world.nodes.includes(on))) expect(world.blocksOf(each)).toEqual([]);
  });

  it('never releases the address of a pod that runs on after the orchestrator was made to forget it', async () => {
    const world = await GarbageWorld.with('10.0.0.0/24', 29);
    for (const each of NODES) world.addNode(each);
    await world.addPod('a', 'n1');
    await world.addPod('b', 'n2');
    for (const pod of ['a', 'b']) world.deletePod(pod, 'force');
    world.partition('n2');
    world.advance(10 * GRACE_MS);
    for (let pass = 0; pass < 3 * PASSES; pass += 1)
      expect(await world.period()).toMatchObject({ found: [], 'after-grace': [] });
    world.removeNode('n2');
    for (let pass = 0; pass < PASSES; pass += 1) await world.period();
    expect(world.dead()).toEqual([]);
  });

  it('releases at once what a pod asked for, when pod and node are lost, and never before', async () => {
    const world = await GarbageWorld.with('10.0.0.0/24', 29);
    for (const each of NODES) world.addNode(each);
    const expectNothing = async (): Promise<void> => {
      expect(await world.lookAt('n1')).toEqual([]);
      expect(await world.pass()).toMatchObject({ found: [], 'after-grace': [], 'at-once': [] });
    };
    await world.addPod('a', 'n1', askedBy('a'));
    await world.addPod('b', 'n1');
    // The orchestrator is made to forget both, and they run on.
    for (const pod of ['a', 'b']) world.deletePod(pod, 'force');
    await expectNothing();
    world.partition('n1');
    world.advance(10 * GRACE_MS);
    await expectNothing();
    expect(await world.addPod('a', 'n2', askedBy('a'))).toBe(false);
    world.turnOff('n1');
    expect(await world.lookAt('n1')).toEqual([askedBy('a')]);
    expect(await world.addPod('a', 'n2', askedBy('a'))).toBe(true);
    // What its node gave the other one waits.
    expect(await world.pass()).toMatchObject({ found: [expect.anything()], 'after-grace': [], 'at-once': [] });
    for (let pass = 0; pass < PASSES; pass += 1) await world.period();
    expect(world.dead()).toEqual([]);
  });

  it('releases nothing of a node that is out of service while the API has the pod', async () => {
    const world = await GarbageWorld.with('10.0.0.0/24', 29);
    for (const each of NODES) world.addNode(each);
    await world.addPod('a', 'n1', askedBy('a'));
    world.turnOff('n1');
    for (let pass = 0; pass < 2 * PASSES; pass += 1) {
      expect(await world.lookAt('n1')).toEqual([]);
      expect(await world.period()).toMatchObject({ 'after-grace': [], 'at-once': [] });
    }
    world.deletePod('a', 'force');
    expect(await world.lookAt('n1')).toEqual([askedBy('a')]);
  });

  it('lists every address a grace period before it is released', async () => {
    const listed = new Map<string, number>();
    const world = await GarbageWorld.with('10.0.0.0/24', 29);
    const random = seededRandom(11);
    for (const each of NODES) world.addNode(each);
    let released = 0;
    for (let pass = 0; pass < 200; pass += 1) {
      const pod = `p${String(random.int(20))}`;
      if (random.int(3) === 0) world.deletePod(pod, 'leak');
      else await world.addPod(pod, NODES[random.int(NODES.length)] ?? '');
      if (random.int(40) === 0) world.restart();
      if (random.int(10) === 0) world.removeNode(NODES[random.int(NODES.length)] ?? '');
      if (random.int(5) === 0) world.addNode(NODES[random.int(NODES.length)] ?? '');
      const done = await world.period();
      for (const { allocation } of done?.found ?? []) listed.set(allocation.id, pass);
      for (const { allocation } of done?.['after-grace'] ?? []) {
        released += 1;
        expect((pass - (listed.get(allocation.id) ?? pass)) * PERIOD_MS).toBeGreaterThanOrEqual(GRACE_MS);
      }
    }
    expect(released).toBeGreaterThan(10);
  });
});
