// What an agent has written, and may take back: the call that it served has given up, or the agent has ended since.
import { readlinkSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { podOf } from '../../../test/support/ctl-cluster.ts';
import { updateTo } from '../../../test/support/block-edits.ts';
import { nodeName, poolOf } from '../../../test/support/fixtures.ts';
import { attachmentOf, IpamBench, requestOf } from '../../../test/support/ipam-bench.ts';
import { overriding } from '../../../test/support/overriding.ts';
import { piecewiseStore } from '../../../test/support/piecewise-store.ts';
import { type Resident, residentOn, type World, worldWith } from '../../../test/support/resident-world.ts';
import { until } from '../../../test/support/until.ts';
import { systemClock } from '../../base/clock.ts';
import { NetplugError } from '../../base/errors.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import type { Allocation } from '../../model/ip-block.ts';
import { handleOf, interfaceKey } from '../../model/names.ts';
import { type TakeSlot, undoOf } from '../../model/slot-operation.ts';
import { endpointIdOf, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import { formatAddress } from '../../net/address.ts';
import { addressAt } from '../../net/cidr.ts';
import { assign } from '../assign.ts';
import type { AssignedAddress } from '../plan-assign.ts';
import { datastoreIdOf } from './datastore-id.ts';
import type { Entry } from './entry.ts';
import { encodeLine } from './entry-codec.ts';
import { recoverBeforeCall } from './recover-before-call.ts';
import { segmentName } from './segment-name.ts';

const NODE = nodeName('n1');
const DATASTORE = datastoreIdOf('kvv3', 'one');
const never = new AbortController().signal;
let world: World;
afterEach(async () => world?.end());

/** An agent whose writes with a caller that waits are committed and not answered until it wakes. */
async function hangingAgent(
  how: 'commits' | 'fails',
): Promise<{ readonly agent: Resident; readonly wake: () => void }> {
  world = await worldWith('10.0.0.0/24', 26);
  const asleep = Promise.withResolvers<undefined>();
  const plain = world.store();
  let isFirst = true;
  const inner = overriding(plain, {
    commit: async (changes, signal) => {
      const isHeld = isFirst && changes.some(({ kind }) => kind === 'create-block');
      if (!isHeld) return plain.commit(changes, signal);
      isFirst = false;
      const outcome = how === 'commits' ? await plain.commit(changes, never) : undefined;
      await asleep.promise;
      if (outcome === undefined) throw new NetplugError('store/unavailable', 'The datastore does not answer');
      return outcome;
    },
  });
  const agent = await residentOn(world, { inner });
  return { agent, wake: () => asleep.resolve(undefined) };
}

const endpointWith = (container: string, networks: readonly string[]): WorkloadEndpoint => {
  const { spec, ...web } = podOf('web', 'n1', networks);
  return { ...web, spec: { ...spec, containerID: container } };
};

/** A call of the shim that gives up after a while. */
async function giveUp({ store }: Resident, container: string): Promise<void> {
  const signal = AbortSignal.timeout(300);
  const withAddresses = (assigned: readonly AssignedAddress[]): WorkloadEndpoint =>
    endpointWith(
      container,
      assigned.map(({ address }) => `${formatAddress(address)}/32`),
    );
  const request = { ...requestOf(container, {}), endpoint: { id: endpointIdOf(withAddresses([])), withAddresses } };
  const ports = { store, clock: systemClock, random: systemRandom, log: silentLog };
  await expect(assign(ports, request, { signal, cleanupSignal: signal })).rejects.toMatchObject({
    name: 'TimeoutError',
  });
}

/** The program that serves a call without an agent, beside one that is alive. */
async function standalone({ folder, links }: Resident, container: string, signal = never): Promise<string[]> {
  const ports = {
    store: world.store(),
    clock: systemClock,
    random: systemRandom,
    log: silentLog,
    host: { machine: 'n1', boot: 'one' },
    place: { folder, tryLock: () => false },
    listAttached: () => new Set(links.keys()),
    listAddressesInUse: async () => Promise.resolve([...links.values()].flat()),
  };
  const call = { node: NODE, attachment: attachmentOf(container), type: 'kvv3', isAdd: true } as const;
  await recoverBeforeCall(ports, call, signal);
  const assigned = await assign(ports, requestOf(container, {}), { signal, cleanupSignal: signal });
  return assigned.map(({ address }) => formatAddress(address));
}

describe('an agent that hangs after it has written for a caller that gave up', () => {
  it('takes nothing back that another program has returned since, under an id of its own', async () => {
    const { agent, wake } = await hangingAgent('commits');
    await giveUp(agent, 'c1');
    const [address] = await standalone(agent, 'c1');
    expect(world.held()).toEqual([address]);
    wake();
    await agent.add('c2');
    await until(() => agent.node.state.waiting === 0, 'the agent has nothing to write');
    expect(world.holders()).toContain(`c1 ${address!}`);
    const { endpoints } = await world.store().listEndpoints(undefined, never);
    expect(endpoints.map(({ value }) => value.spec.ipNetworks)).toEqual([[`${address!}/32`]]);
  });

  it('keeps the address that a call had, when the second block of what it takes again is in conflict', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24'), poolOf('v6', 'fd00::/120'));
    const [v4] = await ipam.addresses('c1', { families: '46' });
    const store = piecewiseStore(ipam.ports().store);
    let isFirst = true;
    const racing = overriding(store, {
      commit: async (changes, signal) => {
        const before = changes.flatMap((change) => (change.kind === 'update-block' ? change.before : []));
        const [, second] = before;
        if (isFirst && second !== undefined) await store.commit([updateTo(second, second.value)], signal);
        isFirst = false;
        return store.commit(changes, signal);
      },
    });
    const request = requestOf('c1', { families: '46' });
    await assign({ ...ipam.ports(), store: racing }, request, { signal: never, cleanupSignal: never });
    expect(isFirst).toBe(false);
    expect((await ipam.addresses('c1', { families: '46' }))[0]).toBe(v4);
  });

  it('leaves the record that another program has written for the container meanwhile', async () => {
    const { agent, wake } = await hangingAgent('fails');
    await giveUp(agent, 'c1');
    const endpoint = endpointWith('c1', ['10.0.0.200/32']);
    await world.store().commit([{ kind: 'put-endpoint', endpoint }], never);
    wake();
    await agent.add('c2');
    await until(() => agent.node.state.waiting === 0, 'the agent has nothing to write');
    const { endpoints } = await world.store().listEndpoints(undefined, never);
    expect(endpoints.map(({ value }) => value.spec.ipNetworks)).toEqual([['10.0.0.200/32']]);
  });
});

/** An agent beside the journal of an earlier one that is locked, and that is about an address which c1 holds. */
async function besideJournal(
  entryOf: (take: TakeSlot) => Entry,
  links: Resident['links'] = new Map(),
): Promise<{ readonly agent: Resident; readonly address: string; readonly unlock: () => void }> {
  world = await worldWith('10.0.0.0/24', 26);
  const earlier = { format: 2, datastore: DATASTORE, node: NODE, run: 'n1-one-earlier' } as const;
  const isEarlier = (fd: number): boolean => readlinkSync(`/proc/self/fd/${String(fd)}`).includes(earlier.run);
  let isLocked = true;
  const folder = await mkdtemp(join(tmpdir(), 'netplug-resident-'));
  const agent = await residentOn(world, { of: { folder, links }, tryLock: (fd) => !isEarlier(fd) || !isLocked });
  await agent.add('other');
  const owner = attachmentOf('c1');
  const allocation: Allocation = {
    id: 'of-earlier',
    handle: handleOf(owner),
    node: NODE,
    ...owner,
    at: '2026-01-01T00:00:00Z',
    chosenBy: 'node-selector',
  };
  await until(() => agent.node.state.waiting === 0, 'it is written');
  const [before] = (await world.store().listBlocks(never)).blocks;
  const block = before!.value.cidr;
  const ordinal = before!.value.queue.at(-1)!;
  const take = { kind: 'take', block, ordinal, from: undefined, allocation } as const;
  await world.store().commit([{ kind: 'update-block', before: before!, operations: [take] }], never);
  writeFileSync(join(folder, segmentName(earlier, 0)), encodeLine(earlier) + encodeLine(entryOf(take)));
  await until(
    async () => (await agent.store.readNodeView(NODE, undefined, never)).owned[0]!.value.slots.has(ordinal),
    'the agent sees it',
  );
  return { agent, address: formatAddress(addressAt(block, ordinal)), unlock: () => void (isLocked = false) };
}

const unfinished = (take: TakeSlot): Entry => ({
  slots: [take],
  endpoints: [{ kind: 'put', endpoint: endpointWith('c1', ['10.0.0.63/32']) }],
});

describe('an agent, with the journal of an earlier one that is not replayed yet,', () => {
  it.each<[string, (take: TakeSlot) => Entry]>([
    ['may be taken back', unfinished],
    ['was released', (take) => ({ slots: [undoOf(take)], endpoints: [] })],
  ])('returns no address of it that %s', async (_, entryOf) => {
    const { agent, unlock } = await besideJournal(entryOf);
    const answer = agent.add('c1');
    expect(await Promise.race([answer, sleep(200, 'waits')])).toBe('waits');
    unlock();
    const [address] = await answer;
    await until(() => agent.node.state.waiting === 0, 'it is written');
    expect(world.holders()).toContain(`c1 ${address!}`);
  });

  it('returns the address of a pod that has its link', async () => {
    const links: Resident['links'] = new Map([[interfaceKey(attachmentOf('c1')), []]]);
    const { agent, address } = await besideJournal(unfinished, links);
    expect(await agent.add('c1')).toEqual([address]);
  });
});
