// Free addresses of a node that some of its processes could neither release nor assign.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { NetplugError } from '../../base/errors.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import { decodeBlock, encodeBlock } from '../../model/ip-block-codec.ts';
import { emptyBlock } from '../../model/ip-block.ts';
import { endpointIdOf } from '../../model/workload-endpoint.ts';
import { formatAddress } from '../../net/address.ts';
import { parseCidr } from '../../net/cidr.ts';
import { endpointOf } from '../../../test/support/enforcement-host.ts';
import { ipamConfigurationOf, lockOf, nodeName, poolOf } from '../../../test/support/fixtures.ts';
import { attachmentOf, requestOf } from '../../../test/support/ipam-bench.ts';
import { residentOn, World, worldWith } from '../../../test/support/resident-world.ts';
import { overriding } from '../../../test/support/overriding.ts';
import { until } from '../../../test/support/until.ts';
import { assign, type IpamPorts } from '../assign.ts';
import { release, releaseForGood } from '../release.ts';
import { retireIdleNode } from '../retire-node.ts';
import { ensureTunnelAddress } from '../tunnel-address.ts';
import { PreallocatedAddresses } from './preallocated.ts';
import { recoverBeforeCall } from './recover-before-call.ts';

const NODE = nodeName('n1');
const signal = new AbortController().signal;
const limits = { signal, cleanupSignal: signal };
let world: World;
afterEach(async () => world.end());

function portsOf(store: IpamPorts['store']): IpamPorts {
  return { store, clock: systemClock, random: systemRandom, log: silentLog };
}

describe('an address of a node', () => {
  it('is released through the agent when it is the last one of a block whose owner was removed', async () => {
    world = await worldWith('10.0.0.0/28', 28);
    const owner = await residentOn(world, { name: 'n2', warmPoolFloor: 0 });
    await owner.add('a');
    await until(() => world.held().length === 1, 'the owner has the block');
    const borrower = await residentOn(world, { name: NODE, warmPoolFloor: 0 });
    await borrower.add('b');
    await owner.remove('a');
    await until(() => world.held().length === 1, 'only the borrowed address is held');
    await owner.kill();
    await retireIdleNode(world.store(), { node: nodeName('n2'), isInUse: async () => Promise.resolve(false) }, signal);
    expect(world.blocks().map(({ node }) => node)).toEqual([undefined]);
    await sleep(200);
    await releaseForGood(portsOf(borrower.store), { node: NODE, which: () => true }, signal);
    await until(() => world.blocks().length === 0, 'the block is deleted');
  });

  it('is assigned to a tunnel by another process of the node when its agent has pre-allocated all that are left', async () => {
    world = new World();
    const store = openMemoryStore(world.database);
    await store.createResource(poolOf('v4', '10.0.0.0/16', { blockSize: 26 }), signal);
    await store.createResource(ipamConfigurationOf({ strictAffinity: true, maxBlocksPerNode: 1 }), signal);
    const agent = await residentOn(world, { name: NODE, warmPoolFloor: 256 });
    await agent.add('a');
    await until(() => world.preallocated() === 63, 'all are pre-allocated');
    const { resources: pools } = await store.listResources('IPPool', signal);
    const request = { node: NODE, device: 'vxlan.netplug', family: 4, pools } as const;
    expect(await ensureTunnelAddress(portsOf(world.store()), request, limits)).toBeDefined();
  });

  it('is assigned by the standalone program after an agent that stopped during an outage', async () => {
    world = await worldWith('10.0.0.0/27', 27);
    await world
      .store()
      .createResource({ ...lockOf('unlocked'), spec: { datastoreReady: true, clusterGUID: 'one' } }, signal);
    const agent = await residentOn(world, { name: NODE, warmPoolFloor: 256 });
    await agent.add('a');
    await until(() => world.preallocated() === 31, 'all are pre-allocated');
    world.isAway = true;
    await agent.node.drain(AbortSignal.timeout(100));
    await agent.kill();
    world.isAway = false;
    const ports = {
      ...portsOf(world.store()),
      host: { machine: NODE, boot: 'one' },
      place: { folder: agent.folder, tryLock: () => true },
      listAttached: () => new Set(['a/eth0']),
      listAddressesInUse: async () => Promise.resolve([]),
    };
    const call = { node: NODE, attachment: attachmentOf('b'), type: 'kvv3', isAdd: true } as const;
    await recoverBeforeCall(ports, call, signal);
    expect(await assign(ports, requestOf('b', { node: NODE }), limits)).toHaveLength(1);
  });

  it('is returned again to its attachment while the datastore can be read and not written', async () => {
    world = await worldWith('10.0.0.0/26', 26);
    let isReadOnly = false;
    const inner = openMemoryStore(world.database, {
      fault: (operation) => (isReadOnly && operation === 'commit' ? { kind: 'unavailable-before' } : undefined),
    });
    const agent = await residentOn(world, { name: NODE, warmPoolFloor: 16, inner });
    await agent.add('a');
    await until(() => world.preallocated() === 16, 'addresses are pre-allocated');
    isReadOnly = true;
    const once = await agent.add('b');
    const again = assign(portsOf(agent.store), requestOf('b', { node: NODE }), {
      signal: AbortSignal.timeout(15_000),
      cleanupSignal: signal,
    });
    expect((await again).map(({ isNew }) => isNew)).toEqual([false]);
    isReadOnly = false;
    expect(await agent.add('b')).toEqual(once);
  });

  it.each([
    { state: 'has not recorded it', isRecorded: false, isReadable: true },
    { state: 'shows it as recorded', isRecorded: true, isReadable: true },
    { state: 'cannot be read', isRecorded: true, isReadable: false },
  ])('is not returned again from a write that will be undone while the datastore $state', async (row) => {
    world = await worldWith('10.0.0.0/26', 26);
    const plain = world.store();
    const answer = Promise.withResolvers<void>();
    let isAnswered = true;
    let tries = 0;
    const inner = overriding(plain, {
      commit: async (...asked) => {
        if (!isAnswered && !row.isRecorded) await answer.promise;
        const outcome = await plain.commit(...asked);
        if (!isAnswered) await answer.promise;
        return outcome;
      },
      readNodeView: async (...asked) => {
        if (!row.isReadable && !isAnswered) throw new NetplugError('store/unavailable', 'Cannot be read');
        return plain.readNodeView(...asked);
      },
    });
    const agent = await residentOn(world, { name: NODE, warmPoolFloor: 0, inner });
    await agent.add('z');
    await until(() => agent.node.state.waiting === 0, 'the node has a block');
    isAnswered = false;
    const request = requestOf('b', { node: NODE });
    const shortly = { signal: AbortSignal.timeout(50), cleanupSignal: AbortSignal.timeout(100) };
    await expect(assign(portsOf(agent.store), request, shortly)).rejects.toThrow('timeout');
    const store = overriding(agent.store, {
      readNodeView: async (...asked) => {
        tries += 1;
        return agent.store.readNodeView(...asked);
      },
    });
    const again = assign(portsOf(store), request, limits);
    await until(() => tries > 2, 'it tries again');
    isAnswered = true;
    answer.resolve();
    const [given] = await again;
    const [later] = await agent.add('c');
    await until(() => world.held().includes(later!), 'everything is written');
    expect(world.holders()).toContain(`b ${formatAddress(given!.address)}`);
  });

  it('is not assigned by a write whose caller has given up before it began', async () => {
    world = await worldWith('10.0.0.0/26', 26);
    const plain = world.store();
    const shown = Promise.withResolvers<void>();
    let isBehind = false;
    const taken: string[] = [];
    const inner = overriding(plain, {
      // The watch falls behind.
      follow: async function* (...asked) {
        for await (const event of plain.follow(...asked)) {
          if (isBehind) await shown.promise;
          yield event;
        }
      },
      commit: async (changes, limit) => {
        for (const change of changes)
          if (change.kind === 'update-block')
            for (const slot of change.operations) if (slot.kind === 'take') taken.push(slot.allocation.containerId);
        return plain.commit(changes, limit);
      },
    });
    const agent = await residentOn(world, { name: NODE, warmPoolFloor: 0, inner });
    await agent.add('z');
    await until(() => agent.node.state.waiting === 0, 'the node has a block');
    isBehind = true;
    const theirs = endpointOf('p', 'npl00000000000');
    const endpoint = { ...theirs, spec: { ...theirs.spec, node: NODE } };
    const id = endpointIdOf(endpoint);
    const ports = portsOf(agent.store);
    await ports.store.commit([{ kind: 'put-endpoint', endpoint }], signal);
    await until(() => agent.node.state.waiting === 0, 'the endpoint is written');
    // Written once the watch shows the endpoint, or half a second later.
    await release(ports, { node: NODE, which: () => false, endpoint: { id, isSame: () => true } }, signal);
    const shortly = { signal: AbortSignal.timeout(50), cleanupSignal: AbortSignal.timeout(100) };
    await expect(assign(ports, requestOf('b', { node: NODE }), shortly)).rejects.toThrow('timeout');
    shown.resolve();
    await until(() => agent.node.state.waiting === 0, 'everything is written');
    expect(taken).toEqual([]);
  });

  it('is assigned late after its release, also when the block comes from a datastore', () => {
    const preallocated = new PreallocatedAddresses('run');
    const ids = [5, 6, 1].map((ordinal) => [ordinal, preallocated.newId()] as const);
    const empty = emptyBlock(parseCidr('10.0.0.0/26'), NODE);
    const queue = empty.queue.filter((ordinal) => ![1, 5, 6].includes(ordinal));
    const block = { ...empty, queue, preallocated: new Map(ids) };
    const read = decodeBlock(JSON.parse(JSON.stringify(encodeBlock(block))));
    if (!('block' in read)) throw new Error(JSON.stringify(read));
    expect(preallocated.in(read.block)).toEqual([5, 6, 1]);
  });
});
