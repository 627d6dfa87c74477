import { takeSlot } from '../../../../test/support/block-edits.ts';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callCtl, machineIn, type Ran } from '../../../../test/support/ctl.ts';
import { nodeName, nodeOf, poolOf } from '../../../../test/support/fixtures.ts';
import { type MemoryNode, memoryNode, NETNS } from '../../../../test/support/memory-node.ts';
import { recordText } from '../../../../test/support/runtime-record.ts';
import { type Clock, systemClock, virtualClock } from '../../../base/clock.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import type { Store } from '../../../datastore/store.ts';
import { emptyBlock, heldAddresses } from '../../../model/ip-block.ts';
import { handleOf } from '../../../model/names.ts';
import { formatAddress } from '../../../net/address.ts';
import { parseCidr } from '../../../net/cidr.ts';

const never = new AbortController().signal;
const NOW = Date.parse('2026-01-02T00:00:00Z');

let folder: string;
let node: MemoryNode;
let store: Store;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplugctl-'));
  node = await memoryNode();
  store = openMemoryStore(node.database);
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

async function run(argv: string, clock: Clock = virtualClock(NOW)): Promise<Ran> {
  return callCtl(argv.split(' '), {
    openStore: () => openMemoryStore(node.database),
    openKernel: () => node.kernel,
    machine: machineIn(folder),
    clock,
  });
}

/** Returns the allocation ids of the held addresses, by address. */
async function held(): Promise<ReadonlyMap<string, string>> {
  const { blocks } = await store.listBlocks(never);
  return new Map(
    blocks
      .flatMap(({ value }) => heldAddresses(value))
      .map(({ address, allocation }) => [formatAddress(address), allocation.id]),
  );
}

/** The one address of pod shop/web. */
async function addPod(): Promise<string> {
  expect((await node.call('ADD')).status).toBe(0);
  return [...(await held()).keys()][0]!;
}

async function dropEndpoint(): Promise<void> {
  const [endpoint] = (await store.listEndpoints(undefined, never)).endpoints;
  await store.commit([{ kind: 'delete-endpoint', before: endpoint! }], never);
}

/** A block of node-b in which node-a holds the first address. */
async function borrow(): Promise<void> {
  const [pool] = (await store.readNodeView(nodeName('node-b'), undefined, never)).pools;
  const attachment = { network: 'net', containerId: 'cb', ifName: 'eth0' };
  const who = { id: 'b1', node: nodeName('node-a'), namespace: 'shop', pod: 'lent' };
  const when = { at: '2026-01-01T00:00:00Z', chosenBy: 'netconf' as const };
  const allocation = { handle: handleOf(attachment), ...attachment, ...who, ...when };
  const block = takeSlot(emptyBlock(parseCidr('10.65.0.0/26'), nodeName('node-b')), 0, allocation);
  await store.commit([{ kind: 'create-block', block, pool: pool! }], never);
}

describe('ipam release', () => {
  it('refuses an address that an endpoint or an interface uses, and frees it with --force, endpoint and all', async () => {
    const address = await addPod();
    const refused = await run(`ipam release --ip ${address}`);
    expect(refused).toMatchObject({ status: 69, out: expect.stringContaining(`${address}: in use`) });
    expect(refused.err).toContain(`Cannot release ${address}: endpoint shop/node--a-orch-web-eth0 uses it`);
    await dropEndpoint();
    expect((await run(`ipam release --ip ${address}`)).err).toMatch(/interface npl\w+ of this machine uses it/);
    expect((await held()).size).toBe(1);
    const forced = await run(`ipam release --ip ${address} --force`);
    expect(forced).toMatchObject({ status: 0, out: expect.stringContaining(`${address}: released (pod "shop/web"`) });
    expect(forced.err).toContain('the next pod with this address shares it');
    expect(await held()).toEqual(new Map());
  });

  it('takes the endpoint along when it has no other address', async () => {
    const address = await addPod();
    await run(`ipam release --ip ${address} --force -o json`);
    expect((await store.listEndpoints(undefined, never)).endpoints).toEqual([]);
  });

  it('frees what a report says leaked, and never a newer owner of the same address', async () => {
    const address = await addPod();
    await dropEndpoint();
    node.kernel.removeNetns(NETNS);
    node.kernel.addNetns(NETNS);
    const report = await run('ipam check --unconfirmed --grace 0 -o json');
    expect(report.status).toBe(1);
    const file = join(folder, 'report.json');
    const leaked = report.out.replaceAll('unconfirmed-address', 'leaked-address');
    await writeFile(file, leaked.replace(/"allocation": "[^"]+"/, '"allocation": "of-another-time"'));
    const reused = await run(`ipam release --from-report ${file}`);
    expect(reused).toMatchObject({ status: 0, out: expect.stringContaining(`${address}: held by another since`) });
    expect((await held()).size).toBe(1);
    await writeFile(file, leaked);
    const freed = await run(`ipam release --from-report ${file} -o json`);
    expect(JSON.parse(freed.out)).toMatchObject({ addresses: [{ address, outcome: 'released' }] });
    expect(await held()).toEqual(new Map());
    expect((await run(`ipam release --from-report ${file}`)).out).toBe(`${address}: not held\n`);
  });

  it('refuses what it cannot read', async () => {
    expect(await run('ipam release')).toMatchObject({ status: 64 });
    expect(await run('ipam release --ip 10.0.0')).toMatchObject({ status: 64 });
    const file = join(folder, 'report.json');
    await writeFile(file, '{"items": []}');
    expect(await run(`ipam release --from-report ${file}`)).toMatchObject({ status: 64 });
  });
});

describe('ipam check', () => {
  it('names a running pod that lost its interface, and does not free the address of a pod that runs', async () => {
    const address = await addPod();
    const [link] = node.kernel.listHostLinks();
    await node.kernel.remove(link!.name, link!.owner!);
    const leaked = await run('ipam check --grace 0 -o json');
    expect(findingIds(leaked)).toEqual(['ipam/leaked-address']);
    const machine = machineIn(folder);
    await mkdir(machine.resultsDir);
    await writeFile(join(machine.resultsDir, 'k8s-pod-network-c1-eth0'), recordText({ netns: NETNS }));
    const checked = await run('ipam check --grace 0 --fix -o json');
    expect(findingIds(checked)).toEqual(['ipam/pod-without-interface']);
    expect(checked.out).toContain('pod \\"shop/web\\" has no interface');
    expect([...(await held()).keys()]).toEqual([address]);
    await run(`ipam release --ip ${address} --force`);
    expect(await held()).toEqual(new Map());
    expect(findingIds(await run('ipam check -o json'))).toEqual(['ipam/pod-without-interface']);
  });
});

function findingIds({ out }: Ran): readonly string[] {
  return (JSON.parse(out) as { findings: { id: string }[] }).findings.map(({ id }) => id);
}

describe('ipam show', () => {
  it('says until when a released address cools down, of whom it was, and how many of a block do', async () => {
    const still = { ...systemClock, now: () => NOW };
    node = await memoryNode(undefined, still);
    store = openMemoryStore(node.database);
    const address = await addPod();
    expect((await node.call('DEL')).status).toBe(0);
    const shown = await run(`ipam show --ip ${address}`, still);
    expect(shown.out).toMatch(
      /^\S+ is free\n(.*\n)* {2}cooling: {5}until 2026-01-02T00:00:30\.000Z\n {2}last holder: shop\/web\n/,
    );
    expect(JSON.parse((await run(`ipam show --ip ${address} -o json`, still)).out)).toMatchObject({
      lastHolder: 'shop/web',
    });
    expect((await run('ipam show --blocks', still)).out).toMatch(/BORROWED +COOLING\n(.*\n)*block .* 0 +1\n/);
    expect((await run(`why ${address}`, still)).out).toMatch(
      /cools down until 20\S+Z: meanwhile pods other than shop\/web get it only/,
    );
    await run('ipam configure --cooldown 0');
    expect((await run(`ipam show --ip ${address}`, still)).out).not.toContain('cooling');
    expect(await run('ipam configure --cooldown 3601')).toMatchObject({
      status: 64,
      err: expect.stringContaining('a whole number of seconds from 0 to 3600'),
    });
  });
});

describe('ipam configure', () => {
  it('shows what there is, and changes what is given', async () => {
    expect((await run('ipam configure -o json')).out).toBe(
      '{\n  "strictAffinity": false,\n  "maxBlocksPerNode": 0,\n  "cooldownSeconds": 30\n}\n',
    );
    expect(await run('ipam configure --max-blocks 4')).toMatchObject({ status: 0 });
    expect(await run('ipam configure --strict-affinity true')).toMatchObject({ status: 0 });
    const { config } = await store.readNodeView(nodeName('node-a'), undefined, never);
    expect(config).toMatchObject({ strictAffinity: true, maxBlocksPerNode: 4 });
    const { out } = await run('ipam show --configuration');
    expect(out).toMatch(/strictAffinity +true +nodes use blocks of their own only/);
    expect(await run('ipam configure --strict-affinity yes')).toMatchObject({ status: 64 });
  });

  it('turns strict affinity on only when nothing is borrowed, or with --force', async () => {
    await borrow();
    expect((await run('ipam show --borrowed')).out).toMatch(
      /10\.65\.0\.0 +10\.65\.0\.0\/26 +node-b +node-a +pod "shop\/lent"/,
    );
    const refused = await run('ipam configure --strict-affinity true');
    expect(refused).toMatchObject({
      status: 69,
      err: expect.stringContaining('10.65.0.0 of pod "shop/lent" on node node-a'),
    });
    expect((await run('ipam configure -o json')).out).toContain('"strictAffinity": false');
    const forced = await run('ipam configure --strict-affinity true --force');
    expect(forced).toMatchObject({ status: 0, err: expect.stringContaining('they stay until their pods are gone') });
  });

  it('warns of nodes that own more blocks than the new limit', async () => {
    await borrow();
    const [pool] = (await store.readNodeView(nodeName('node-b'), undefined, never)).pools;
    const block = emptyBlock(parseCidr('10.65.0.64/26'), nodeName('node-b'));
    await store.commit([{ kind: 'create-block', block, pool: pool! }], never);
    const { status, err } = await run('ipam configure --max-blocks 1');
    expect(status).toBe(0);
    expect(err).toContain('node node-b owns IPv4 blocks: 2, more than the limit; it keeps them\n');
  });
});

describe('ipam forecast', () => {
  it('distinguishes a cluster that fits from one that does not, without a datastore', async () => {
    const argv = 'ipam forecast --pods-per-node 110 --cidr 10.0.0.0/16 --block-size 26 --nodes';
    expect(await run(`${argv} 500`)).toEqual({
      status: 0,
      err: '',
      out: expect.stringContaining('fits:          yes\n'),
    });
    const small = await run(`${argv} 600`);
    expect(small.status).toBe(1);
    await expect(small.out).toMatchFileSnapshot('../../../../test/golden/ipam-forecast.txt');
    expect(JSON.parse((await run(`${argv} 600 -o json`)).out)).toMatchObject({
      families: [
        { family: 4, fits: false, failed: 464, firstBorrowing: { nodeNumber: 513 }, advice: { blockSize: 25 } },
      ],
    });
  });

  it('begins with what there is, and counts a tunnel address per node', async () => {
    await store.createResource(poolOf('tunnelled', '10.64.0.0/24', { blockSize: 28, vxlanMode: 'Always' }), never);
    await addPod();
    const argv = 'ipam forecast --nodes 3 --pods-per-node 20 --pool tunnelled -o json';
    const [empty] = JSON.parse((await run(argv)).out).families;
    expect(empty).toMatchObject({ nodes: 3, addressesPerNode: 21, placed: 63, pools: [{ blocks: 16, blocksUsed: 6 }] });
    const [present] = JSON.parse((await run(`${argv} --from-cluster`)).out).families;
    expect(present).toMatchObject({ nodes: 3, placed: 62 });
  });

  it('ends when its time is over', async () => {
    const argv = 'ipam forecast --nodes 10000 --pods-per-node 110 --cidr 10.0.0.0/12 --block-size 32 --timeout 0.01';
    expect(await run(argv)).toMatchObject({
      status: 75,
      out: '',
      err: expect.stringContaining('Timed out after 0.01 s'),
    });
  });

  it('refuses pools that cannot be', async () => {
    const forecast = 'ipam forecast --nodes 1 --pods-per-node 1';
    expect(await run(`${forecast} --cidr 10.0.0.0/33`)).toMatchObject({ status: 65 });
    expect(await run(`${forecast} --cidr 10.0.0.0/16 --block-size 12`)).toMatchObject({ status: 65 });
    expect(await run(`${forecast} --pool red`)).toMatchObject({ status: 78, err: expect.stringContaining('"red"') });
    await store.createResource(nodeOf('node-x'), never);
    node.database.putResource({ kind: 'IPPool', name: 'blue' }, undefined);
    expect(await run(forecast)).toMatchObject({ status: 75, err: expect.stringContaining('no pool may serve') });
  });
});
