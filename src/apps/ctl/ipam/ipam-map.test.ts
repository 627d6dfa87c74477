import { preallocate, takeSlot } from '../../../../test/support/block-edits.ts';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callCtl, type Ran } from '../../../../test/support/ctl.ts';
import { nodeName, nodeOf, poolOf, reservationOf } from '../../../../test/support/fixtures.ts';
import { MemoryDatabase } from '../../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import type { Change } from '../../../datastore/allocation-store.ts';
import type { Store } from '../../../datastore/store.ts';
import { type Allocation, emptyBlock, type IpBlock } from '../../../model/ip-block.ts';
import { handleOf } from '../../../model/names.ts';
import { tunnelAttachment } from '../../../model/tunnel-attachment.ts';
import type { WorkloadEndpoint } from '../../../model/workload-endpoint.ts';
import { formatAddress } from '../../../net/address.ts';
import { addressAt, parseCidr } from '../../../net/cidr.ts';

const never = new AbortController().signal;

let folder: string;
let database: MemoryDatabase;
let store: Store;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplugctl-'));
  database = new MemoryDatabase();
  store = openMemoryStore(database);
  await seed();
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

async function run(argv: string): Promise<Ran> {
  return callCtl(argv.split(' '), { openStore: () => openMemoryStore(database) });
}

function holder(
  node: string,
  id: string,
  attachment = { network: 'net', containerId: id, ifName: 'eth0' },
): Allocation {
  const pod = { namespace: 'shop', pod: id };
  const at = '2026-01-01T00:00:00Z';
  return { id, handle: handleOf(attachment), node: nodeName(node), ...attachment, ...pod, at, chosenBy: 'netconf' };
}

function endpointOf(node: string, id: string, address: string): WorkloadEndpoint {
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name: `${node}-${id}`, namespace: 'shop' },
    spec: {
      orchestrator: 'orch',
      node,
      network: 'net',
      containerID: id,
      pod: id,
      endpoint: 'eth0',
      ipam: 'netplug-ipam',
      interfaceName: 'npl0',
      mac: '0a:00:00:00:00:01',
      ipNetworks: [`${address}/32`],
      profiles: [],
    },
  };
}

/** A pool of small blocks with an address in each state, and a large one of which 70 blocks are claimed. */
async function seed(): Promise<void> {
  await store.createResource(poolOf('blue', '10.65.0.0/24'), never);
  await store.createResource(poolOf('large', '10.128.0.0/12', { blockSize: 25 }), never);
  await store.createResource(reservationOf('kept', ['10.65.0.60/30']), never);
  await store.createResource({ ...nodeOf('node-a'), spec: { ipv4VXLANTunnelAddr: '10.65.0.0' } }, never);
  const pools = (await store.readNodeView(nodeName('node-a'), undefined, never)).pools;
  const pool = (name: string) => pools.find(({ value }) => value.metadata.name === name)!;
  const endpoints: WorkloadEndpoint[] = [];
  const take = (block: IpBlock, ordinal: number, node: string, ifLeaked = false): IpBlock => {
    const address = formatAddress(addressAt(block.cidr, ordinal));
    const id = `pod-${address}`;
    if (!ifLeaked) endpoints.push(endpointOf(node, id, address));
    return takeSlot(block, ordinal, holder(node, id));
  };
  let first = emptyBlock(parseCidr('10.65.0.0/26'), nodeName('node-a'));
  for (let ordinal = 1; ordinal < 12; ordinal += 1) first = take(first, ordinal, 'node-a');
  first = takeSlot(first, 0, holder('node-a', 'tunnel', tunnelAttachment(nodeName('node-a'), 'npl-vxlan')));
  first = take(take(first, 12, 'node-b'), 13, 'node-a', true);
  first = preallocate(first, new Map([14, 15, 16, 17].map((ordinal) => [ordinal, `run#${String(ordinal)}`])));
  const second = take(emptyBlock(parseCidr('10.65.0.128/26'), nodeName('node-b')), 0, 'node-b');
  const changes: Change[] = [first, second].map((block) => ({ kind: 'create-block', block, pool: pool('blue') }));
  for (let index = 0; index < 70; index += 1) {
    const place = index * 3 + (index > 60 ? 5000 : 0);
    const cidr = parseCidr(
      `10.${String(128 + (place >> 9))}.${String((place >> 1) & 255)}.${String((place & 1) * 128)}/25`,
    );
    let block = emptyBlock(cidr, nodeName(`node-${String(index)}`));
    for (let ordinal = 0; ordinal < (index * 7) % 129; ordinal += 1)
      block = take(block, ordinal, `node-${String(index)}`, index === 9 && ordinal === 0);
    changes.push({ kind: 'create-block', block, pool: pool('large') });
  }
  const puts = endpoints.map((endpoint): Change => ({ kind: 'put-endpoint', endpoint }));
  expect(await store.commit([...changes, ...puts], never)).toBe('committed');
}

describe('ipam map', () => {
  it('draws small pools address by address and large ones block by block', async () => {
    const { status, out } = await run('ipam map');
    expect(status).toBe(0);
    await expect(out).toMatchFileSnapshot('../../../../test/golden/ipam-map.txt');
  });

  it('shows each address of a block once, and agrees with what is stored', async () => {
    const { out } = await run('ipam map --pool blue');
    const cells = /10\.65\.0\.0\/26 +node-a +(\S+)/.exec(out)?.[1] ?? '';
    expect(cells).toBe(`T${'█'.repeat(11)}▒!${'○'.repeat(4)}${'·'.repeat(42)}----`);
  });

  it('keeps to the blocks that concern a node', async () => {
    const { pools } = JSON.parse((await run('ipam map --node node-b -o json')).out);
    expect(pools[0].blocks.map(({ cidr }: { cidr: string }) => cidr)).toEqual(['10.65.0.0/26', '10.65.0.128/26']);
    expect(pools[1].blocks).toEqual([]);
    expect(await run('ipam map --pool red')).toMatchObject({
      status: 66,
      err: expect.stringContaining('"blue", "large"'),
    });
  });

  it('draws a picture with a cell for everything, inside its frame and none over another', async () => {
    const file = join(folder, 'pools.svg');
    expect((await run(`ipam map -o svg ${file}`)).out).toBe(`${file} written\n`);
    const svg = await readFile(file, 'utf8');
    expect(
      svg.match(/10\.65\.0\.13: looks leaked, pod &quot;shop\/pod-10\.65\.0\.13&quot; on node node-a/),
    ).not.toBeNull();
    expect(svg.match(/<title>10\.65\.0\.\d+: /g)).toHaveLength(128);
    expect(svg.match(/<title>10\.1\d\d\.[\d.]+\/25 of node-/g)).toHaveLength(70);
    const tiles = [...svg.matchAll(/<g transform="translate\(([\d.]+) ([\d.]+)\)"><text[^>]*>([\d.]+\/\d+)</g)];
    const places = tiles.map(([, x, y]) => `${x ?? ''},${y ?? ''}`);
    expect(new Set(places).size).toBe(places.length);
    const page = (await run('ipam map -o html')).out;
    expect(page).toMatch(/^<!doctype html>/);
    expect(page).not.toMatch(/https?:\/\/(?!www\.w3\.org\/2000\/svg)/);
  });

  it('says which file cannot be written', async () => {
    expect(await run(`ipam map -o svg ${folder}/no/pools.svg`)).toMatchObject({ status: 64 });
  });
});
