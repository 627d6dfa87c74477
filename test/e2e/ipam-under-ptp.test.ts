// netplug-ipam as the address manager of another main plugin, and called directly.
import { describe, expect, it } from 'vitest';
import { type Json, startNode, type TestNode, until } from '../support/node.ts';

const V4_GATEWAY = '169.254.1.1';
const V6_GATEWAY = 'fe80::ecee:eeff:feee:eeee';
const DUAL_STACK = { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' };

describe('netplug-ipam under ptp', () => {
  it('connects host and pod, and releases the addresses', async () => {
    await using node = await startPooledNode();
    const pod = await node.pod();
    const conf = ptpConf(node);

    await node.exec('ip', 'address', 'add', '198.51.100.1/32', 'dev', 'lo');

    const added = await node.cni('ADD', { plugin: 'ptp', containerId: 'one', netns: pod.path, conf });
    expect(added).toMatchObject({ status: 0 });
    const held = await node.heldAddresses();
    expect(added.json.ips.map(({ address }: Json) => address)).toEqual([
      `${String(held[0])}/26`,
      `${String(held[1])}/122`,
    ]);
    // A host that has an IPv6 address sends from it, and ptp gives the pod no route back there.
    await pod.exec('ip', '-6', 'route', 'add', 'default', 'via', V6_GATEWAY, 'dev', 'eth0');
    for (const address of held) await until(async () => node.host.pingOnce(address), `the host reaches ${address}`);
    // The kernel looks for duplicates of the gateway's address first, because ptp lets it.
    for (const gateway of [V4_GATEWAY, `${V6_GATEWAY}%eth0`]) {
      await until(async () => pod.pingOnce(gateway), `the pod reaches ${gateway}`);
    }

    const withResult = { ...conf, prevResult: added.json };
    expect(
      await node.cni('CHECK', { plugin: 'ptp', containerId: 'one', netns: pod.path, conf: withResult }),
    ).toMatchObject({
      status: 0,
    });
    for (const netns of [pod.path, '']) {
      const answer = await node.cni('DEL', { plugin: 'ptp', containerId: 'one', netns, conf: withResult });
      expect(answer).toMatchObject({ status: 0, stdout: '' });
      expect(await node.heldAddresses()).toEqual([]);
    }
  });

  it('releases the address when ptp fails afterwards', async () => {
    await using node = await startPooledNode();
    const pod = await node.pod();
    await pod.exec('ip', 'link', 'add', 'name', 'eth0', 'type', 'veth');
    const answer = await node.cni('ADD', { plugin: 'ptp', containerId: 'one', netns: pod.path, conf: ptpConf(node) });
    expect(answer.status).not.toBe(0);
    expect(await node.heldAddresses()).toEqual([]);
  });

  it('reports with its own message why ptp gets no address', async () => {
    await using node = await startNode();
    const pod = await node.pod();
    const answer = await node.cni('ADD', { plugin: 'ptp', containerId: 'one', netns: pod.path, conf: ptpConf(node) });
    expect(answer.status).not.toBe(0);
    expect(answer.json).toMatchObject({ code: 11, details: expect.stringContaining('ipam/exhausted') });
  });
});

describe('netplug-ipam under bridge', () => {
  it('connects pods over the bridge, and releases their addresses', async () => {
    await using node = await startPooledNode();
    const conf = { ...ptpConf(node), type: 'bridge', bridge: 'br0' };
    const [one, two] = [await node.pod(), await node.pod()];
    for (const [containerId, pod] of [
      ['one', one],
      ['two', two],
    ] as const) {
      const added = await node.cni('ADD', { plugin: 'bridge', containerId, netns: pod.path, conf });
      expect(added).toMatchObject({ status: 0 });
    }
    const held = await node.heldAddresses();
    expect(held).toHaveLength(4);
    for (const address of held) {
      await until(
        async () => (await one.pingOnce(address)) && (await two.pingOnce(address)),
        `both pods reach ${address}`,
      );
    }
    for (const [containerId, pod] of [
      ['one', one],
      ['two', two],
    ] as const) {
      expect(await node.cni('DEL', { plugin: 'bridge', containerId, netns: pod.path, conf })).toMatchObject({
        status: 0,
      });
    }
    expect(await node.heldAddresses()).toEqual([]);
  });
});

describe('netplug-ipam', () => {
  it("returns an address of each family with its block's prefix length and the gateways, and no interface or route", async () => {
    await using node = await startPooledNode();
    const { status, json } = await ipam(node, ['ADD', 'one']);
    expect(status).toBe(0);
    expect(json).toEqual({
      cniVersion: '1.1.0',
      ips: [
        { address: expect.stringMatching(/^10\.81\.0\.\d+\/26$/), gateway: V4_GATEWAY },
        { address: expect.stringMatching(/^fd00:81::[\da-f:]+\/122$/), gateway: V6_GATEWAY },
      ],
      dns: {},
    });
    expect(json.ips.map(({ address }: Json) => address.split('/')[0])).toEqual(await node.heldAddresses());
    expect(await node.endpoints()).toEqual([]);
  });

  it('returns the same addresses when ADD is repeated, and assigns none twice', async () => {
    await using node = await startPooledNode();
    const first = await ipam(node, ['ADD', 'one']);
    expect((await ipam(node, ['ADD', 'one'])).json).toEqual(first.json);
    const other = await ipam(node, ['ADD', 'two']);
    expect(new Set([...first.json.ips, ...other.json.ips].map(({ address }: Json) => address))).toHaveLength(4);
    expect(await node.heldAddresses()).toHaveLength(4);
  });

  it('passes CHECK for assigned addresses, and fails it for released ones', async () => {
    await using node = await startPooledNode();
    const { json: prevResult } = await ipam(node, ['ADD', 'one']);
    expect(await ipam(node, ['CHECK', 'one'], { prevResult })).toMatchObject({ status: 0, stdout: '' });
    await ipam(node, ['DEL', 'one']);
    expect(await ipam(node, ['CHECK', 'one'], { prevResult })).toMatchObject({ status: 1, json: { code: 120 } });
  });

  it('releases on DEL, also when repeated, only what the attachment holds', async () => {
    await using node = await startPooledNode();
    await ipam(node, ['ADD', 'one']);
    const { json: kept } = await ipam(node, ['ADD', 'two']);
    for (const _time of ['first', 'second']) {
      expect(await ipam(node, ['DEL', 'one'])).toMatchObject({ status: 0, stdout: '' });
      expect(await node.heldAddresses()).toEqual(kept.ips.map(({ address }: Json) => address.split('/')[0]));
    }
  });

  it('releases on GC what the runtime does not list, and nothing without a list', async () => {
    await using node = await startPooledNode();
    await ipam(node, ['ADD', 'lost']);
    const { json: kept } = await ipam(node, ['ADD', 'kept']);
    expect(await ipam(node, ['GC', ''])).toMatchObject({ status: 0, stdout: '' });
    expect(await node.heldAddresses()).toHaveLength(4);

    const attachments = [{ containerID: 'kept', ifname: 'eth0' }];
    expect(await ipam(node, ['GC', ''], { 'cni.dev/valid-attachments': attachments })).toMatchObject({
      status: 0,
      stdout: '',
    });
    expect(await node.heldAddresses()).toEqual(kept.ips.map(({ address }: Json) => address.split('/')[0]));
  });

  it('reports with STATUS whether it can assign an address', async () => {
    await using node = await startPooledNode();
    expect(await ipam(node, ['STATUS', ''])).toMatchObject({ status: 0, stdout: '' });
    const noPool = { ipam: { type: 'netplug-ipam', assign_ipv4: 'true', ipv4_pools: ['nowhere'] } };
    const answer = await ipam(node, ['STATUS', ''], noPool);
    expect(answer).toMatchObject({ status: 1, json: { code: 50, msg: expect.stringContaining('"nowhere"') } });
  });
});

async function startPooledNode(): Promise<TestNode> {
  const node = await startNode();
  await node.seedPool('v4', '10.81.0.0/24');
  await node.seedPool('v6', 'fd00:81::/112');
  return node;
}

/** The standard plugins here know no CNI version above 1.0.0. */
function ptpConf(node: TestNode): Record<string, Json> {
  return node.netconf({ cniVersion: '1.0.0', name: 'ptp-network', type: 'ptp', ipam: DUAL_STACK });
}

async function ipam(
  node: TestNode,
  [command, containerId]: [command: string, containerId: string],
  more: object = {},
): ReturnType<TestNode['cni']> {
  const netns = containerId === '' ? '' : '/run/netns/of-another-plugin';
  return node.cni(command, {
    plugin: 'netplug-ipam',
    containerId,
    netns,
    conf: node.netconf({ ipam: DUAL_STACK, ...more }),
  });
}
