// Compares `why` and `plan add` with the changes of a real ADD in a real kernel, etcd and API server.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { never } from '../../src/base/errors.ts';
import type { AddPlan } from '../../src/apps/ctl/explain/plan-add.ts';
import type { KernelStep } from '../../src/apps/ctl/explain/kernel-steps.ts';
import { CTL_DATASTORES, type CtlDatastore, spawnCtl } from '../support/ctl-datastores.ts';
import { type Json, startNode, type TestNode } from '../support/node.ts';
import { NETPLUGCTL } from '../support/built.ts';

const CALL = { containerId: 'c1', args: 'K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0' };

describe('plan add on a node', () => {
  let node: TestNode;
  beforeAll(async () => {
    node = await startNode({ name: 'node-e2e', mode: 'standalone' });
    await node.seedPool('v4', '10.65.0.0/24');
    await node.seedPool('v6', 'fd00:65::/120');
  });
  afterAll(async () => node?.[Symbol.asyncDispose]());

  async function plan(conf: object, netns: string): Promise<AddPlan> {
    const file = join(node.dir, 'plan.conf');
    await writeFile(file, JSON.stringify(conf));
    const argv = ['plan', 'add', '--netconf', file, '--args', CALL.args, '--container', 'c1', '--netns', netns];
    // The node shares /run with the machine, where another agent may listen.
    const { stdout, stderr, status } = await node.run([NETPLUGCTL, ...argv, '-o', 'json'], {
      env: { NETPLUG_SOCKET: node.socket },
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    return JSON.parse(stdout) as AddPlan;
  }

  /** Whether the kernel is as the step says. */
  async function isDone(step: KernelStep, pod: string): Promise<boolean> {
    const at = step.where === 'pod' ? ['nsenter', `--net=${pod}`, '--'] : [];
    const ask = async (...command: string[]): Promise<Json> =>
      JSON.parse(await node.exec(...([...at, 'ip', '-j', ...command] as [string, ...string[]])));
    switch (step.kind) {
      case 'link': {
        const [link] = await ask('-d', 'link', 'show', 'dev', step.link);
        return link.address === step.mac && link.mtu === step.mtu && link.num_tx_queues === step.queues;
      }
      case 'sysctl': {
        const path = `/proc/sys/${step.name.replaceAll('.', '/')}`;
        const { stdout, status } = await node.run([...at, 'cat', path]);
        return status === 0 ? stdout.trim() === step.value : step.ifPresent;
      }
      case 'address': {
        const [link] = await ask('address', 'show', 'dev', step.link);
        return link.addr_info.some(({ local, prefixlen }: Json) => `${local}/${prefixlen}` === step.address);
      }
      case 'route': {
        const family = step.destination.includes(':') ? '-6' : '-4';
        const [address, bits] = step.destination.split('/');
        const dst = bits === '0' ? 'default' : address;
        const routes = await ask(family, 'route', 'show', 'dev', step.link);
        return routes.some((route: Json) => route.dst === dst && route.gateway === step.gateway);
      }
      case 'neighbour': {
        const family = step.address.includes(':') ? '-6' : '-4';
        const neighbours = await ask(family, 'neighbour', 'show', 'dev', step.link);
        return neighbours.some(({ dst, lladdr }: Json) => dst === step.address && lladdr === step.mac);
      }
      case 'remove-link':
        return false;
      default:
        return never(step);
    }
  }

  it('changes nothing, and predicts every change of ADD to kernel and etcd', async () => {
    const pod = await node.pod();
    const ipam = { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' };
    const conf = node.netconf({ ipam, mtu: 1400, container_settings: { allow_ip_forwarding: true } });
    // The first ADD of a node makes it.
    await node.exec('sh', '-c', 'umask 77; mkdir -p /var/lib/netplug; printf "%064d\\n" 7 > /var/lib/netplug/link-key');
    const before = await node.records();
    const said = await plan(conf, pod.path);
    expect(await node.records()).toEqual(before);
    expect(await node.hostLinks()).toEqual([]);
    for (const step of said.kernel.filter(({ kind }) => kind === 'link' || kind === 'address'))
      await expect(isDone(step, pod.path)).rejects.toThrow('ended with 1');

    const { status, json } = await node.cni('ADD', { ...CALL, netns: pod.path, conf });
    expect(status).toBe(0);
    expect(json).toEqual(said.result);
    for (const step of said.kernel)
      expect({ step, isDone: await isDone(step, pod.path) }).toEqual({ step, isDone: true });
    const taken = said.store.flatMap((step) => (step.kind === 'assign-address' ? [step.address] : []));
    expect([...(await node.heldAddresses())].sort()).toEqual([...taken].sort());
    const [endpoint] = await node.endpoints();
    const [planned] = said.store.flatMap((step) => (step.kind === 'put-endpoint' ? [step] : []));
    expect(endpoint).toMatchObject({ metadata: { name: planned?.name, namespace: 'shop' }, spec: planned?.spec });

    const again = await plan(conf, pod.path);
    expect([again.store, again.kernel]).toEqual([[], []]);
  });
});

describe.each(CTL_DATASTORES)('why on $type', ({ type, start }) => {
  let ctl: CtlDatastore;
  let folder: string;
  beforeAll(async () => {
    ctl = await start();
    folder = await mkdtemp(join(tmpdir(), 'netplugctl-why-'));
    const pools = ['blue 10.65.0.0/24 all()', 'green 10.66.0.0/24 all()', 'rack 10.67.0.0/24 has(rack)'].map((line) => {
      const [name, cidr, nodeSelector] = line.split(' ');
      return { apiVersion: 'netplug.io/v3', kind: 'IPPool', metadata: { name }, spec: { cidr, nodeSelector } };
    });
    const items = { apiVersion: 'v1', kind: 'List', items: pools };
    const { status, stderr } = await ctl.run(['apply', '-f', '-'], { stdin: JSON.stringify(items) });
    if (status !== 0) throw new Error(stderr);
    await ctl.server?.putNode('node-a');
    await ctl.server?.putPod({ namespace: 'shop', name: 'web-0', node: 'node-a' });
  });
  afterAll(async () => {
    await ctl?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  const env = (): Record<string, string> => ({ NETPLUG_CNI_CONF_DIR: folder });

  it('answers a program of its own as it answers a call in the process', async () => {
    const argv = ['why', 'pod', 'shop/gone'];
    const places = { ...ctl.env, ...env() };
    expect(await spawnCtl(argv, { env: places })).toEqual(await ctl.run(argv, { env: places }));
  });

  it('reports which pools a pod without an address can use, and why not the others', async () => {
    const { status, stdout } = await ctl.run(['why', 'pod', 'shop/web-0', '--node', 'node-a'], { env: env() });
    expect(status).toBe(0);
    expect(stdout).toContain('pod shop/web-0 has no address; it would get one now');
    expect(stdout).toMatch(/→ 3\. node selectors of the pools/);
    expect(stdout).toMatch(
      /skipped +rack 10\.67\.0\.0\/24: its nodeSelector "has\(rack\)" does not select node "node-a"/,
    );
    expect(stdout).toContain('defaults are assumed; use --netconf FILE');
  });

  it('reports why an address has no holder', async () => {
    const { stdout } = await ctl.run(['why', '10.65.0.7'], { env: env() });
    expect(stdout).toContain('no node has claimed its block 10.65.0.0/26 of pool "blue" yet');
    expect((await ctl.run(['why', '10.99.0.7'])).stdout).toContain('cannot be assigned: it is outside all pools');
  });

  it.runIf(type === 'orch')(
    'reads the annotations of pod and namespace, with no more rights than the tool has',
    async () => {
      await ctl.server?.kubectl('annotate', 'namespace', 'shop', 'cni.netplug/ipv4pools=["green"]');
      const inherited = JSON.parse(
        (await ctl.run(['explain', 'pod', 'shop/web-0', '-o', 'json'], { env: env() })).stdout,
      );
      expect(inherited.node).toBe('node-a');
      expect(inherited.families[0].methods.find(({ decides }: Json) => decides).name).toMatch(/of the namespace$/);
      expect(inherited.wouldDo[0]).toMatchObject({ kind: 'claim-block', pool: 'green' });
      await ctl.server?.kubectl('annotate', 'pod', '-n', 'shop', 'web-0', 'cni.netplug/ipv4pools=["red"]');
      const refused = await ctl.run(['why', 'pod', 'shop/web-0'], { env: env() });
      expect(refused).toMatchObject({ status: 1, stdout: expect.stringContaining('no pool is named "red"') });
      expect(await ctl.run(['why', 'pod', 'shop/gone'], { env: env() })).toMatchObject({
        status: 1,
        stdout: expect.stringContaining('pod "shop/gone"'),
      });
    },
  );
});
