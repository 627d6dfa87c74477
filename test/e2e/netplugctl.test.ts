import { takeSlot } from '../support/block-edits.ts';
import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { emptyBlock } from '../../src/model/ip-block.ts';
import { handleOf, type NodeName } from '../../src/model/names.ts';
import type { WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { type Etcd, startEtcd } from '../support/etcd.ts';
import { AS_OTHER_NODE, startNode } from '../support/node.ts';
import { NETPLUGCTL } from '../support/built.ts';

const never = new AbortController().signal;

let etcd: Etcd;
let store: Store;
let folder: string;
beforeAll(async () => {
  if (!existsSync(NETPLUGCTL)) throw new Error(`${NETPLUGCTL} is missing: run "make build" first`);
  etcd = await startEtcd();
  store = openKvStore({
    endpoints: { from: 'list', urls: [etcd.url] },
    keyFile: undefined,
    certFile: undefined,
    caCertFile: undefined,
  });
  folder = await mkdtemp(join(tmpdir(), 'netplugctl-'));
});
afterAll(async () => {
  await store[Symbol.asyncDispose]();
  await etcd[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

interface Ran {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function ctl(args: readonly string[], more: { stdin?: string; env?: Record<string, string> } = {}): Promise<Ran> {
  const env = more.env ?? { KV_ENDPOINTS: etcd.url };
  return new Promise((done) => {
    const child = execFile(NETPLUGCTL, args, { env }, (error, stdout, stderr) => {
      done({ status: error === null ? 0 : Number(error.code), stdout, stderr });
    });
    child.stdin?.end(more.stdin ?? '');
  });
}

const POOLS = ['-f', 'examples/ippools.yaml', '-f', 'examples/ipreservation.yaml'];

describe('netplugctl', () => {
  it('applies the examples, twice', async () => {
    const first = await ctl(['apply', ...POOLS]);
    expect(first).toMatchObject({ status: 0, stderr: '' });
    expect(first.stdout).toContain('IPPool "default-ipv4-pool" created\n');
    const second = await ctl(['apply', ...POOLS]);
    expect(second.stdout).toBe(first.stdout.replaceAll('created', 'unchanged'));
  });

  it('shows the examples in every output format, and accepts its own output', async () => {
    expect((await ctl(['get', 'ippools'])).stdout).toMatch(/^NAME +CIDR +SELECTOR +UNUSABLE\n/);
    expect((await ctl(['get', 'ippools', '-o', 'wide'])).stdout).toContain('BLOCKSIZE');
    expect((await ctl(['get', 'pool', '-o', 'name'])).stdout).toContain('ippool/default-ipv4-pool\n');
    for (const form of ['yaml', 'json']) {
      const { stdout } = await ctl(['get', 'ippools', '-o', form]);
      expect(parse(stdout)).toMatchObject({ kind: 'IPPoolList' });
      const again = await ctl(['apply', '-f', '-'], { stdin: stdout });
      expect(again.stdout).toMatch(/^(IPPool "[^"]+" unchanged\n)+$/);
    }
  });

  it('reads the connection from a file, and reports an unreachable datastore with its own exit status [ctl-env]', async () => {
    const config = join(folder, 'ctl.yaml');
    await writeFile(config, `KV_ENDPOINTS: ${etcd.url}\n`);
    const dead = { KV_ENDPOINTS: 'http://127.0.0.1:1' };
    expect(await ctl(['get', 'ippools', '--config', config], { env: dead })).toMatchObject({ status: 0 });
    expect(await ctl(['get', 'ippools'], { env: dead })).toMatchObject({
      status: 75,
      stderr: expect.stringContaining('store/unavailable'),
    });
    expect(await ctl(['get', 'ippools'], { env: { DATASTORE_TYPE: 'orch' } })).toMatchObject({ status: 69 });
  });

  it('prints its version and that of the cluster [ctl-version]', async () => {
    const { status, stdout } = await ctl(['version']);
    expect({ status, stdout }).toEqual({
      status: 0,
      stdout: expect.stringMatching(/^Client Version: v3\.27\.\d+\nCluster Version: /),
    });
    expect(stdout).toContain('datastore: kvv3 reachable\n');
  });

  it('finds a leaked address, shows its holder, refuses to delete its pool, and releases it', async () => {
    await leak();
    const show = await ctl(['ipam', 'show', '--ip', '10.244.0.20']);
    expect(show.stdout).toMatch(/^10\.244\.0\.20 is held\n +pod: +shop\/web-0\n/);
    expect((await ctl(['ipam', 'show', '--blocks'])).stdout).toMatch(/block +10\.244\.0\.0\/26/);
    expect((await ctl(['get', 'wep', '-n', 'shop'])).stdout).toContain('web-0');
    const refused = await ctl(['delete', 'ippool', 'default-ipv4-pool']);
    expect(refused).toMatchObject({ status: 69, stderr: expect.stringContaining('1 address of it held on 1 node') });
    const listed = await ctl(['ipam', 'check']);
    expect(listed).toMatchObject({ status: 1, stdout: expect.stringContaining('does not exist on this node') });
    expect(await ctl(['ipam', 'check', '--no-kernel'])).toMatchObject({ status: 0 });
    const freed = await ctl(['ipam', 'check', '--fix']);
    expect(freed).toMatchObject({ status: 0, stdout: expect.stringMatching(/^released: address 10\.244\.0\.20 /) });
    expect((await ctl(['ipam', 'show', '--ip', '10.244.0.20'])).stdout).toContain('is free');
    expect((await store.listEndpoints(undefined, never)).endpoints).toEqual([]);
  });

  it('deletes pools with their empty blocks', async () => {
    expect((await store.listBlocks(never)).blocks).toHaveLength(1);
    expect(await ctl(['delete', ...POOLS])).toMatchObject({ status: 0 });
    expect((await store.listBlocks(never)).blocks).toEqual([]);
    expect((await ctl(['get', 'ippools', '-o', 'name'])).stdout).toBe('');
  });

  it('lints its own examples, and a broken file by line [lint-chain]', async () => {
    const lists = ['10-netplug', '10-netplug-dual-stack', '10-netplug-host-local'].map(
      (name) => `examples/${name}.conflist`,
    );
    expect(await ctl(['lint', ...lists, ...POOLS.filter((word) => word !== '-f')])).toMatchObject({ status: 0 });
    const file = join(folder, 'x.conflist');
    await writeFile(
      file,
      '{"name": "n", "cniVersion": "1.0.0", "plugins": [\n{"type": "netplug", "ipam": {"type": "netplug-ipam", "asign_ipv4": "true"}},\n{"type": "portmap", "snat": 1}]}',
    );
    const { status, stdout } = await ctl(['lint', file]);
    expect(status).toBe(1);
    expect(stdout).toContain(`${file}:2:54: error: plugins[0].ipam.asign_ipv4: is not a key of netplug`);
    expect(stdout).toContain(`${file}:3:21: error: plugins[1].snat: found 1 (number)`);
  });

  it('prints no stack trace when the reader of its output exits', async () => {
    const child = spawn('sh', ['-c', `"${NETPLUGCTL}" --help | true; exit 0`], {
      env: {},
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let errors = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
    await new Promise((done) => child.on('close', done));
    expect(errors).toBe('');
  });
});

/** Names the etcd of a test node, which has no network configuration in its folder. */
const ON_NODE = { KV_ENDPOINTS: 'http://127.0.0.1:2379' };

describe('netplugctl ipam check on a node', () => {
  it('finds differences between records, runtime and kernel, and repairs them', async () => {
    // An agent would record at once what is deleted under it.
    await using node = await startNode({ name: 'node-e2e', mode: 'standalone' });
    await node.seedPool('v4', '10.65.0.0/24');
    for (const containerId of ['c1', 'c2']) {
      const added = await node.cni('ADD', { containerId, netns: (await node.pod()).path, conf: node.netconf() });
      expect(added).toMatchObject({ status: 0 });
    }
    const check = async (...flags: string[]): Promise<Ran> => {
      await node.settled();
      const { status, ...said } = await node.run(
        [NETPLUGCTL, 'ipam', 'check', '--node', 'node-e2e', '--grace', '0', ...flags],
        { env: ON_NODE },
      );
      return { status: status ?? -1, ...said };
    };
    expect(await check()).toMatchObject({ status: 0, stdout: expect.stringContaining('2 interfaces of this node') });

    const [gone] = await node.endpoints();
    await node.exec('ip', 'link', 'del', gone.spec.interfaceName);
    expect(await check()).toMatchObject({ status: 1, stdout: expect.stringContaining(gone.spec.interfaceName) });
    expect(await check('--fix')).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/^released: address 10\.65\.0\./),
    });
    expect(await node.heldAddresses()).toHaveLength(1);
    expect((await node.endpoints()).map(({ spec }) => spec.containerID)).not.toContain(gone.spec.containerID);

    await node.exec('env', 'ETCDCTL_API=3', 'etcdctl', 'del', '--prefix', '/netplug/v3/ipam');
    expect(await check()).toMatchObject({ status: 1, stdout: expect.stringContaining('which no block says it holds') });
    await node.exec('env', 'ETCDCTL_API=3', 'etcdctl', 'del', '--prefix', '/netplug/v3/endpoints');
    // As with the address of another datastore: the pod lives.
    const left = await check('--fix');
    expect(left).toMatchObject({ status: 1, stdout: expect.stringContaining('this datastore may not be that of') });
    expect(await node.hostLinks()).toHaveLength(1);
  });

  it('does not report pods of another node as dead', async () => {
    await using node = await startNode({ name: 'node-e2e' });
    await node.seedPool('v4', '10.65.0.0/24');
    const conf = node.netconf({ nodename: 'elsewhere' });
    const pod = await node.pod();
    const call = { containerId: 'c1', netns: pod.path, conf, env: AS_OTHER_NODE };
    expect(await node.cni('ADD', call)).toMatchObject({ status: 0 });
    await node.exec('ip', 'link', 'del', (await node.endpoints())[0].spec.interfaceName);
    const { status, stderr } = await node.run(
      [NETPLUGCTL, 'ipam', 'check', '--node', 'elsewhere', '--grace', '0', '--fix'],
      { env: ON_NODE },
    );
    expect({ status, stderr }).toEqual({
      status: 0,
      stderr: expect.stringContaining('no interface of this machine belongs to node "elsewhere"'),
    });
    expect(await node.heldAddresses()).toHaveLength(1);
  });
});

/** An attachment of this machine in block and endpoint, whose interface is not there. */
async function leak(): Promise<void> {
  const node = hostname() as NodeName;
  const { pools } = await store.readNodeView(node, undefined, never);
  const pool = pools.find(({ value }) => value.metadata.name === 'default-ipv4-pool')!;
  const attachment = { network: 'net', containerId: 'c1', ifName: 'eth0' };
  const allocation = {
    id: 'a-1',
    handle: handleOf(attachment),
    node,
    ...attachment,
    namespace: 'shop',
    pod: 'web-0',
    at: '2026-01-01T00:00:00Z',
    chosenBy: 'node-selector',
  } as const;
  const endpoint: WorkloadEndpoint = {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name: 'web-0-eth0', namespace: 'shop' },
    spec: {
      orchestrator: 'orch',
      node,
      network: 'net',
      containerID: 'c1',
      pod: 'web-0',
      endpoint: 'eth0',
      interfaceName: 'npl00000000000',
      mac: '0a:00:00:00:00:01',
      ipNetworks: ['10.244.0.20/32'],
      profiles: ['net'],
      ipam: 'netplug-ipam',
    },
  };
  const block = takeSlot(emptyBlock(parseCidr('10.244.0.0/26'), node), 20, allocation);
  const outcome = await store.commit(
    [
      { kind: 'create-block', block, pool },
      { kind: 'put-endpoint', endpoint },
    ],
    never,
  );
  expect(outcome).toBe('committed');
}
