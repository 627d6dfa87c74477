// Commands on addresses, and those that look at everything: the same on both datastores, with no more rights than the role
// for the tool gives.
import { takeSlot } from '../support/block-edits.ts';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { emptyBlock, type IpBlock } from '../../src/model/ip-block.ts';
import { handleOf } from '../../src/model/names.ts';
import { endpointName, type WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { CTL_DATASTORES, type CtlDatastore, spawnCtl } from '../support/ctl-datastores.ts';
import { nodeName, nodeOf, poolOf } from '../support/fixtures.ts';

const never = new AbortController().signal;
const NETCONF = {
  cniVersion: '1.0.0',
  name: 'net',
  type: 'netplug',
  kv_endpoints: 'http://127.0.0.1:1',
  ipam: { type: 'netplug-ipam' },
};

interface Pod {
  readonly pod: string;
  readonly node: string;
}
const WEB = { pod: 'web', node: 'node-a' };
const LEFT = { pod: 'left', node: 'node-a' };
const GUEST = { pod: 'guest', node: 'node-b' };
const GONE = { pod: 'gone', node: 'node-c' };

const attachmentOf = (pod: string): { network: string; containerId: string; ifName: string } => ({
  network: 'net',
  containerId: `container-of-${pod}`,
  ifName: 'eth0',
});

function held(block: IpBlock, ordinal: number, { pod, node }: Pod): IpBlock {
  const attachment = attachmentOf(pod);
  const at = '2026-01-01T00:00:00Z';
  return takeSlot(block, ordinal, {
    id: `allocation-of-${pod}`,
    node: nodeName(node),
    ...attachment,
    handle: handleOf(attachment),
    namespace: 'shop',
    pod,
    at,
    chosenBy: 'netconf',
  });
}

function endpointOf({ pod, node }: Pod, podUID: string, address: string): WorkloadEndpoint {
  const { network, containerId: containerID, ifName: endpoint } = attachmentOf(pod);
  const orchestrator = 'orch';
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name: endpointName({ node, orchestrator, workload: pod, endpoint }), namespace: 'shop' },
    spec: {
      orchestrator,
      node,
      network,
      containerID,
      pod,
      podUID,
      endpoint,
      interfaceName: 'npl1',
      mac: '0a:00:00:00:00:01',
      ipNetworks: [`${address}/32`],
      profiles: [],
      ipam: 'netplug-ipam',
    },
  };
}

/** One after the other, on what the ones before have left. */
const COMMANDS = [
  'ipam show --blocks',
  'ipam show --ip 10.65.0.1',
  'ipam show --borrowed',
  'ipam map',
  'ipam forecast --nodes 4 --pods-per-node 20 --from-cluster',
  'plan add --netconf FOLDER/net.conf --node node-a --pod shop/next',
  'ipam configure --strict-affinity true',
  'ipam configure --max-blocks 4',
  'ipam check --no-kernel',
  'ipam release --no-kernel --ip 10.65.0.1 --ip 10.65.0.3',
  'ipam check --no-kernel --fix',
  'node remove node-c --dry-run',
  'node remove node-c',
  'ipam configure --strict-affinity true',
  'ipam show --configuration',
  'ipam release --no-kernel --force --ip 10.65.0.1',
  'ipam check --no-kernel',
  'ipam map --pool blue',
];
describe.each(CTL_DATASTORES)('netplugctl over the addresses on $type', ({ type, start }) => {
  let datastore: CtlDatastore;
  let folder: string;
  beforeAll(async () => {
    datastore = await start();
    folder = await mkdtemp(join(tmpdir(), 'netplugctl-ipam-'));
    await writeFile(join(folder, 'net.conf'), JSON.stringify(NETCONF));
    await seed();
  });
  afterAll(async () => {
    await datastore?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  /** Of node-a one pod is there and one is not, node-b has borrowed an address, and node-c is gone. */
  async function seed(): Promise<void> {
    const { store, server } = datastore;
    await store.createResource(poolOf('blue', '10.65.0.0/24', { blockSize: 28 }), never);
    for (const name of ['node-a', 'node-b']) {
      await (server === undefined ? store.createResource(nodeOf(name), never) : server.putNode(name));
    }
    const first = emptyBlock(parseCidr('10.65.0.0/28'), nodeName('node-a'));
    const last = emptyBlock(parseCidr('10.65.0.16/28'), nodeName('node-c'));
    const blocks = [held(held(held(first, 1, WEB), 2, LEFT), 3, GUEST), held(last, 0, GONE)];
    for (const block of blocks) await store.commit([{ kind: 'create-block', block, pool: undefined }], never);
    for (const [pod, address] of [
      [WEB, '10.65.0.1'],
      [GONE, '10.65.0.16'],
    ] as const) {
      const uid = (await server?.putPod({ namespace: 'shop', name: pod.pod, node: pod.node })) ?? 'uid';
      await store.commit([{ kind: 'put-endpoint', endpoint: endpointOf(pod, uid, address) }], never);
    }
    await server?.putPod({ namespace: 'shop', name: 'next', node: 'node-a' });
  }

  async function doctor(): Promise<readonly string[]> {
    const { stdout } = await datastore.run(['doctor', '--cluster', '-o', 'json']);
    const { findings } = JSON.parse(stdout) as { readonly findings: readonly { readonly id: string }[] };
    // The token of a test does not live for long, and only an installation has the admission policies.
    const others = ['credentials/expire-soon', 'admission-policies/missing'];
    return findings.map(({ id }) => id).filter((id) => !others.includes(id));
  }

  it('examines the cluster', async () => {
    expect(await doctor()).toEqual(['ipam/leaked-address', 'ipam/unconfirmed-address']);
  });

  it('prints the same on both datastores', async () => {
    const said: string[] = [];
    for (const words of COMMANDS) {
      const { status, stdout, stderr } = await datastore.run(words.replace('FOLDER', folder).split(' '));
      const text = `${stdout}${stderr}`.replaceAll(folder, 'FOLDER');
      said.push(`$ netplugctl ${words}\n${text}${status === 0 ? '' : `(status ${String(status)})\n`}`);
    }
    await expect(said.join('\n')).toMatchFileSnapshot('../golden/ctl/ipam.txt');
  });

  it('answers a program of its own as it answers a call in the process', async () => {
    const argv = ['ipam', 'check', '-o', 'json'];
    expect(await spawnCtl(argv, { env: datastore.env })).toEqual(await datastore.run(argv));
  });

  it('packs every record into a diagnostics archive', async () => {
    const archive = join(folder, 'report.tar.gz');
    const places = ['--conf-dir', folder, '--socket', join(folder, 'no.sock')];
    expect(await datastore.run(['diags', '--output', archive, ...places])).toMatchObject({ status: 0 });
    const text = execFileSync('tar', ['-xOf', archive, '--wildcards', '*/manifest.json'], { encoding: 'utf8' });
    const { failed } = JSON.parse(text) as { readonly failed: readonly { readonly path: string }[] };
    expect(failed.filter(({ path }) => path.startsWith('resources/'))).toEqual([]);
  });

  it.runIf(type === 'orch')('plans with the annotations of pod and namespace', async () => {
    const file = join(folder, 'policy.conf');
    const orch = { orchconfig: datastore.env['ORCHCONFIG'] };
    await writeFile(file, JSON.stringify({ ...NETCONF, policy: { type: 'orch' }, orch }));
    await datastore.server?.kubectl('annotate', 'namespace', 'shop', 'cni.netplug/ipv4pools=["red"]');
    const plan = ['plan', 'add', '--netconf', file, '--node', 'node-a', '--pod', 'shop/next'];
    expect((await datastore.run(plan)).stderr).toContain('no pool is named "red"');
    await datastore.server?.kubectl('annotate', 'pod', '-n', 'shop', 'next', 'cni.netplug/ipv4pools=["blue"]');
    expect(await datastore.run(plan)).toMatchObject({ status: 0, stderr: '' });
  });

  it.runIf(type === 'orch')('finds kinds that are defined otherwise than in this release', async () => {
    const kind = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bgppeers.netplug.io';
    const path = '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/peerIP';
    const type = 'application/json-patch+json';
    await datastore.server?.call('PATCH', kind, { body: [{ op: 'remove', path }], type });
    expect(await doctor()).toEqual(['datastore/kind-differs']);
  });
});
