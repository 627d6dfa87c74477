import { takeSlot } from '../../../test/support/block-edits.ts';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { callCtl, machineIn, type Ran } from '../../../test/support/ctl.ts';
import { MemoryKernel } from '../../../test/support/memory/memory-kernel.ts';
import { MemoryDatabase } from '../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import type { Change } from '../../datastore/allocation-store.ts';
import type { Store } from '../../datastore/store.ts';
import { emptyBlock } from '../../model/ip-block.ts';
import { handleOf, type NodeName } from '../../model/names.ts';
import { parseCidr } from '../../net/cidr.ts';
import type { Datastore } from '../../config/connection.ts';

const never = new AbortController().signal;
const node = 'node-a' as NodeName;

let folder: string;
let database: MemoryDatabase;
let store: Store;
let kernel: MemoryKernel;
let opened: Datastore[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplugctl-'));
  database = new MemoryDatabase();
  store = openMemoryStore(database);
  kernel = new MemoryKernel();
  opened = [];
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

const ENV = { KV_ENDPOINTS: 'http://127.0.0.1:2379' };

async function run(
  argv: string,
  { store: given, env = ENV, ...more }: { stdin?: string; env?: Record<string, string>; store?: Store } = {},
): Promise<Ran> {
  return callCtl(argv.split(' '), {
    ...more,
    env,
    hostname: node,
    machine: machineIn(folder),
    openKernel: () => kernel,
    openStore: (datastore) => {
      opened.push(datastore);
      return given ?? openMemoryStore(database);
    },
  });
}

const poolYaml = (name: string, cidr: string, more = ''): string =>
  `apiVersion: netplug.io/v3\nkind: IPPool\nmetadata:\n  name: ${name}\nspec:\n  cidr: ${cidr}\n${more}`;

async function seedBlocks(count: number, held: number): Promise<void> {
  expect(await run('apply -f -', { stdin: poolYaml('blue', '10.0.0.0/16') })).toMatchObject({ status: 0 });
  const { pools } = await store.readNodeView(node, undefined, never);
  for (let index = 0; index < count; index += 1) {
    let block = emptyBlock(parseCidr(`10.0.${String(index >> 2)}.${String((index % 4) * 64)}/26`), node);
    if (index === 0) {
      for (let ordinal = 0; ordinal < held; ordinal += 1) {
        const attachment = { network: 'net', containerId: `c${String(ordinal)}`, ifName: 'eth0' };
        block = takeSlot(block, ordinal, {
          id: `id-${String(ordinal)}`,
          handle: handleOf(attachment),
          node,
          ...attachment,
          namespace: 'shop',
          pod: `web-${String(ordinal)}`,
          at: '2026-01-01T00:00:00Z',
          chosenBy: 'node-selector',
        });
      }
    }
    const change: Change = { kind: 'create-block', block, pool: pools[0]! };
    expect(await store.commit([change], never)).toBe('committed');
  }
}

describe('apply', () => {
  it('prints whether it created, configured or left a resource unchanged', async () => {
    const stdin = poolYaml('blue', '10.0.0.0/16');
    expect(await run('apply -f -', { stdin })).toEqual({ status: 0, out: 'IPPool "blue" created\n', err: '' });
    const before = database.state();
    expect(await run('apply -f -', { stdin })).toMatchObject({ status: 0, out: 'IPPool "blue" unchanged\n' });
    expect(database.state()).toBe(before);
    const changed = await run('apply -f -', { stdin: `${stdin}  natOutgoing: true\n` });
    expect(changed.out).toBe('IPPool "blue" configured\n');
  });

  it('changes nothing when one of several documents is invalid, and names the line', async () => {
    const file = join(folder, 'two.yaml');
    await writeFile(
      file,
      `${poolYaml('blue', '10.0.0.0/16')}---\n${poolYaml('green', '10.1.0.0/16', '  natOutgoin: true\n')}`,
    );
    const { status, err } = await run(`apply -f ${file}`);
    expect(status).toBe(65);
    expect(err).toContain(`${file}:14:3: spec.natOutgoin: is not a known field (did you mean "natOutgoing"?)`);
    expect((await store.listResources('IPPool', never)).resources).toEqual([]);
  });

  it('reports each failure, continues, and exits with the status of the first', async () => {
    const stdin = [
      poolYaml('blue', '10.0.0.0/16'),
      poolYaml('sub', '10.0.1.0/24'),
      poolYaml('green', '10.1.0.0/16'),
    ].join('---\n');
    const { status, out, err } = await run('apply -f -', { stdin });
    expect({ status, out }).toEqual({ status: 65, out: 'IPPool "blue" created\nIPPool "green" created\n' });
    expect(err).toContain('10.0.1.0/24 overlaps 10.0.0.0/16 of pool "blue"');
  });

  it('refuses to change the CIDR of a pool', async () => {
    await run('apply -f -', { stdin: poolYaml('blue', '10.0.0.0/16') });
    const { status, err } = await run('apply -f -', { stdin: poolYaml('blue', '10.2.0.0/16') });
    expect(status).toBe(65);
    expect(err).toContain('spec.cidr: cannot be changed from 10.0.0.0/16 to 10.2.0.0/16');
  });

  it('changes a resource only at the resourceVersion of the file', async () => {
    await run('apply -f -', { stdin: poolYaml('blue', '10.0.0.0/16') });
    const { out } = await run('get pool blue -o yaml');
    await run('apply -f -', { stdin: poolYaml('blue', '10.0.0.0/16', '  disabled: true\n') });
    expect(await run('apply -f -', { stdin: out })).toMatchObject({
      status: 75,
      err: expect.stringContaining('resource/changed'),
    });
  });

  it('keeps fields of a newer release, and labels that the file does not mention', async () => {
    const resource = {
      apiVersion: 'netplug.io/v3',
      kind: 'Node',
      metadata: { name: 'n1', labels: { rack: 'a' } },
      spec: { asNumber: 1 },
    };
    await store.createResource(resource as never, never);
    const stdin =
      'apiVersion: netplug.io/v3\nkind: Node\nmetadata:\n  name: n1\nspec:\n  addresses: [{address: 10.0.0.1, type: NodeIP}]\n';
    expect((await run('apply -f -', { stdin })).out).toBe('Node "n1" configured\n');
    const stored = parse((await run('get node n1 -o yaml')).out);
    expect(stored).toMatchObject({
      metadata: { labels: { rack: 'a' } },
      spec: { asNumber: 1, addresses: [{ address: '10.0.0.1' }] },
    });
    await run('replace -f -', { stdin });
    expect(parse((await run('get node n1 -o yaml')).out).metadata.labels).toBeUndefined();
  });

  it('refuses a pool around blocks of another size', async () => {
    await seedBlocks(1, 0);
    database.putResource({ kind: 'IPPool', name: 'blue' }, undefined);
    const { status, err } = await run('apply -f -', { stdin: poolYaml('wide', '10.0.0.0/16', '  blockSize: 28\n') });
    expect(status).toBe(69);
    expect(err).toContain('1 block of another size, such as 10.0.0.0/26');
  });
});

describe('create and replace', () => {
  it('create refuses existing resources, and replace missing ones', async () => {
    const stdin = poolYaml('blue', '10.0.0.0/16');
    expect(await run('replace -f -', { stdin })).toMatchObject({ status: 66 });
    expect(await run('create -f -', { stdin })).toMatchObject({ status: 0 });
    // A pool does not overlap itself.
    expect(await run('create -f -', { stdin })).toMatchObject({ status: 73 });
    expect((await run('replace -f -', { stdin: `${stdin}  disabled: true\n` })).out).toBe('IPPool "blue" replaced\n');
  });
});

describe('folders', () => {
  it('are read in the order of file names, subfolders only with --recursive', async () => {
    await mkdir(join(folder, 'more'));
    await writeFile(join(folder, 'b.yaml'), poolYaml('b', '10.1.0.0/16'));
    await writeFile(join(folder, 'a.yml'), poolYaml('a', '10.0.0.0/16'));
    await writeFile(join(folder, 'note.txt'), 'not: a resource');
    await writeFile(join(folder, 'more', 'c.json'), JSON.stringify(parse(poolYaml('c', '10.2.0.0/16'))));
    expect((await run(`apply -f ${folder}`)).out).toBe('IPPool "a" created\nIPPool "b" created\n');
    expect((await run(`apply -R -f ${folder}`)).out).toContain('IPPool "c" created\n');
    expect((await run(`get -R -f ${folder} -o name`)).out).toBe('ippool/a\nippool/b\nippool/c\n');
    await mkdir(join(folder, 'empty'));
    expect(await run(`apply -f ${join(folder, 'empty')}`)).toMatchObject({ status: 64 });
  });
});

describe('get', () => {
  it('prints yaml and json that can be applied again', async () => {
    await run('apply -f -', { stdin: `${poolYaml('blue', '10.0.0.0/16')}---\n${poolYaml('green', '10.1.0.0/16')}` });
    for (const form of ['yaml', 'json']) {
      const { out } = await run(`get ippools -o ${form}`);
      expect((await run('apply -f -', { stdin: out })).out).toBe('IPPool "blue" unchanged\nIPPool "green" unchanged\n');
    }
    expect(await run('get POOL -o name')).toMatchObject({ out: 'ippool/blue\nippool/green\n' });
    expect((await run('get pools')).out).toBe(
      'NAME   CIDR         SELECTOR  UNUSABLE\nblue   10.0.0.0/16  all()\ngreen  10.1.0.0/16  all()\n',
    );
  });

  it('shows existing resources and fails for missing ones', async () => {
    await run('apply -f -', { stdin: poolYaml('blue', '10.0.0.0/16') });
    const { status, out, err } = await run('get pool blue red -o name');
    expect({ status, out }).toEqual({ status: 66, out: 'ippool/blue\n' });
    expect(err).toContain('IPPool "red"');
  });

  it('suggests the right kind for a typo', async () => {
    expect(await run('get ippol')).toMatchObject({
      status: 64,
      err: expect.stringContaining('did you mean "IPPool"?'),
    });
  });
});

describe('delete of a pool', () => {
  it('deletes its empty blocks as well', async () => {
    await seedBlocks(120, 0);
    expect(await run('delete pool blue')).toMatchObject({ status: 0, out: 'IPPool "blue" deleted\n' });
    expect((await store.listBlocks(never)).blocks).toEqual([]);
  });

  it('is refused while addresses are held, and changes nothing', async () => {
    await seedBlocks(3, 2);
    const { status, err } = await run('delete pool blue');
    expect(status).toBe(69);
    expect(err).toContain('2 addresses of it held on 1 node (node-a)');
    expect((await store.findResource({ kind: 'IPPool', name: 'blue' }, never))?.spec.disabled).toBe(false);
    expect((await store.listBlocks(never)).blocks).toHaveLength(3);
  });

  it('retries when blocks change, and enables the pool again when it fails', async () => {
    await seedBlocks(1, 0);
    let conflicts = 2;
    const fault = (operation: keyof Store): { kind: 'conflict' } | undefined =>
      operation === 'commit' && (conflicts -= 1) >= 0 ? { kind: 'conflict' } : undefined;
    expect(await run('delete pool blue', { store: openMemoryStore(database, { fault }) })).toMatchObject({ status: 0 });
    await seedBlocks(1, 0);
    conflicts = 100;
    expect(await run('delete pool blue', { store: openMemoryStore(database, { fault }) })).toMatchObject({
      status: 75,
    });
    expect((await store.findResource({ kind: 'IPPool', name: 'blue' }, never))?.spec.disabled).toBe(false);
  });
});

describe('ipam show', () => {
  it('shows the usage of pools and blocks', async () => {
    await seedBlocks(2, 3);
    const { out } = await run('ipam show -o json');
    expect(JSON.parse(out).pools).toMatchObject([
      {
        name: 'blue',
        addresses: 65536,
        held: 3,
        free: 65533,
        blocks: [{ cidr: '10.0.0.0/26', held: 3, free: 61 }, { held: 0 }],
      },
    ]);
    expect((await run('ipam show --blocks')).out).toMatch(/block +10\.0\.0\.0\/26 +node-a +64 +3 +0 +61 +95 +0/);
  });

  it('shows the holder of an address', async () => {
    await seedBlocks(1, 1);
    const held = await run('ipam show --ip 10.0.0.0');
    expect(held.out).toContain('10.0.0.0 is held\n  pod:         shop/web-0\n');
    expect(held.out).toContain('id-0');
    expect((await run('ipam show --ip 10.0.0.9')).out).toContain('10.0.0.9 is free');
    expect((await run('ipam show --ip 192.0.2.1')).out).toContain('outside of every pool');
    expect(await run('ipam show --ip 10.0.0')).toMatchObject({ status: 64 });
  });
});

describe('ipam check', () => {
  it('notes addresses that nothing proves leaked, and releases them only with --unconfirmed', async () => {
    await seedBlocks(1, 1);
    const listed = await run('ipam check');
    expect(listed).toMatchObject({
      status: 0,
      out: expect.stringContaining('note: address 10.0.0.0 of pod "shop/web-0"'),
    });
    await run('ipam check --fix');
    expect((await store.listBlocks(never)).blocks[0]?.value.slots.size).toBe(1);
    expect(await run('ipam check --unconfirmed')).toMatchObject({ status: 1 });
    expect(await run('ipam check --unconfirmed --fix')).toMatchObject({
      status: 0,
      out: expect.stringContaining('released: '),
    });
    expect((await store.listBlocks(never)).blocks[0]?.value.slots.size).toBe(0);
  });

  it('removes an interface without an attachment, of a network that has records on the node', async () => {
    await seedBlocks(1, 1);
    kernel.addNetns('/run/netns/x');
    const network = {
      netns: '/run/netns/x',
      podLinkName: 'eth0',
      hostLinkName: 'npl12345678901',
      owner: { containerId: 'gone', ifName: 'eth0', network: 'net' },
      podMac: '0a:00:00:00:00:01',
      mtu: undefined,
      queues: 1,
      addresses: [],
      routes: [],
      allowIpForwarding: false,
    };
    await kernel.apply(network, never);
    expect(await run('ipam check')).toMatchObject({
      status: 1,
      out: expect.stringContaining('found: interface "npl12345678901"'),
    });
    expect(await run('ipam check --no-kernel')).toMatchObject({ status: 0 });
    expect(await run('ipam check --fix')).toMatchObject({ status: 0 });
    expect(kernel.listHostLinks()).toEqual([]);
  });
});

describe('version', () => {
  it('prints the version of the client, then that of the cluster [ctl-version]', async () => {
    const { status, out } = await run('version');
    expect(status).toBe(0);
    expect(out).toMatch(
      /^Client Version: v\d+\.\d+\.\d+\nCluster Version: unknown \(no agent has registered yet\)\nCluster Type: unknown\ndatastore: kvv3 reachable\n$/,
    );
    const fault = (): { kind: 'unavailable-before' } => ({ kind: 'unavailable-before' });
    const dark = await run('version', { store: openMemoryStore(database, { fault }) });
    expect(dark).toMatchObject({ status: 75, out: expect.stringMatching(/^Client Version: [^\n]+\n$/) });
    opened = [];
    expect(await run('version --client')).toMatchObject({ status: 0 });
    expect(opened).toEqual([]);
  });
});

describe('the connection', () => {
  it('comes from the environment, and prints warnings about it [ctl-env]', async () => {
    await run('get pools', { env: { KV_ENDPOINTS: 'https://a:1, https://b:2', KV_CA_CERT_FILE: '/ca.pem' } });
    expect(opened).toMatchObject([
      { type: 'kvv3', connection: { endpoints: { urls: ['https://a:1', 'https://b:2'] }, caCertFile: '/ca.pem' } },
    ]);
    expect((await run('get pools', { env: { KV_AUTHORITY: 'a:1' } })).err).toContain(
      'warning: kv_authority is deprecated',
    );
  });
});

describe('the timeout of a command', () => {
  it('ends the command with an error', async () => {
    const pause = async (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 60));
    const { status, err } = await run('--timeout 0.02 ipam show', { store: openMemoryStore(database, { pause }) });
    expect({ status, err }).toEqual({ status: 75, err: expect.stringContaining('Timed out after 0.02 s') });
  });
});

describe('the command line', () => {
  it.each([
    '',
    'frobnicate',
    'get',
    'get pools --nope',
    'apply',
    'delete pool',
    'get pool -f x',
    'delete wep x',
    'apply -f /nope',
    'ipam',
  ])('refuses %j with status 64', async (argv) => {
    const { status, out, err } = await run(argv);
    expect({ status, out }).toEqual({ status: 64, out: '' });
    expect(err).toMatch(/^Cannot .+\n {2}hint: .+\n {2}code: cli\/usage\n$/s);
  });
});
