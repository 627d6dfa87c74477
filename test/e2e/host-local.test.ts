// Addresses from the standard host-local plugin, and from others netplug knows nothing about.
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type CniAnswer, type Json, startNode, type TestNode } from '../support/node.ts';
import type { TestNetns } from '../support/netns.ts';

const DUAL_STACK = [[{ subnet: '10.90.0.0/24' }], [{ subnet: 'fd00:90::/64' }]];
const V4_GATEWAY = '169.254.1.1';
const V6_GATEWAY = 'fe80::ecee:eeff:feee:eeee';

let node: TestNode;
beforeAll(async () => {
  node = await startNode();
});
afterAll(async () => node?.[Symbol.asyncDispose]());
// Every test begins with a node without pods, and host-local with the first address of its ranges.
afterEach(async () => {
  const conf = { ...withHostLocal(node, { ranges: DUAL_STACK }), 'cni.dev/valid-attachments': [] };
  await node.endPods();
  const { status, stdout } = await node.cni('GC', { ifName: '', conf });
  const left = [...(await node.endpoints()), ...(await node.hostLinks())];
  if (status !== 0 || left.length > 0) throw new Error(`the test leaves ${JSON.stringify(left)} after GC: ${stdout}`);
  await node.exec('rm', '-rf', '/var/lib/cni/networks');
});

describe('host-local', () => {
  it('assigns addresses of both families from the ranges of the host and records them on its disk [hl-delegate]', async () => {
    const conf = withHostLocal(node, { ranges: DUAL_STACK });
    const [one, two] = [await node.pod(), await node.pod()];

    const first = await add(node, { containerId: 'one', pod: one, conf });
    await add(node, { containerId: 'two', pod: two, conf });

    expect(first.ips).toEqual([
      { address: '10.90.0.2/32', gateway: V4_GATEWAY, interface: 1 },
      { address: 'fd00:90::2/128', gateway: V6_GATEWAY, interface: 1 },
    ]);
    expect(await reservations(node)).toEqual(['10.90.0.2', '10.90.0.3', 'fd00:90::2', 'fd00:90::3']);
    expect([...(await node.records('ipam/')).keys()]).toEqual([]);
    expect((await node.endpoints()).map(({ spec }) => [spec.containerID, spec.ipNetworks, spec.ipam])).toEqual([
      ['one', ['10.90.0.2/32', 'fd00:90::2/128'], 'host-local'],
      ['two', ['10.90.0.3/32', 'fd00:90::3/128'], 'host-local'],
    ]);
    expect([await one.ping('10.90.0.3'), await one.ping('fd00:90::3')]).toEqual([true, true]);
  });

  it.each(['1.1.0', '1.0.0', '0.4.0', '0.3.1'])(
    'is delegated to under cniVersion %s [hl-delegate]',
    async (cniVersion) => {
      const pod = await node.pod();
      const conf = withHostLocal(node, { ranges: DUAL_STACK }, { cniVersion });

      const result = await add(node, { containerId: 'one', pod, conf });
      expect(result.cniVersion).toBe(cniVersion);
      expect(result.ips.map(({ address }: Json) => address)).toEqual(['10.90.0.2/32', 'fd00:90::2/128']);
      expect(await addressesOf(pod)).toEqual(['10.90.0.2/32', 'fd00:90::2/128']);

      await del(node, { containerId: 'one', pod, conf, prevResult: result });
      expect(await reservations(node)).toEqual([]);
    },
  );

  it('assigns one address of each range set, trying its ranges in order [hl-ranges]', async () => {
    const ranges = [
      [
        { subnet: '10.90.0.0/24', rangeStart: '10.90.0.20', rangeEnd: '10.90.0.21' },
        { subnet: '10.91.0.0/24', rangeStart: '10.91.0.40', rangeEnd: '10.91.0.40' },
      ],
      [{ subnet: 'fd00:90::/64', rangeStart: 'fd00:90::a', rangeEnd: 'fd00:90::f' }],
    ];
    const conf = withHostLocal(node, { ranges });

    const given = [];
    for (const containerId of ['one', 'two', 'three']) {
      given.push(
        (await add(node, { containerId, pod: await node.pod(), conf })).ips.map(({ address }: Json) => address),
      );
    }
    expect(given).toEqual([
      ['10.90.0.20/32', 'fd00:90::a/128'],
      ['10.90.0.21/32', 'fd00:90::b/128'],
      ['10.91.0.40/32', 'fd00:90::c/128'],
    ]);

    const pod = await node.pod();
    const full = await node.cni('ADD', { containerId: 'four', netns: pod.path, conf });
    expect(full.json).toMatchObject({
      code: 11,
      msg: 'Cannot assign an address in network "k8s-pod-network": host-local holds every address of 10.90.0.20-10.90.0.21,10.91.0.40-10.91.0.40',
    });
    await expectNothingOf(node, 'four');
    expect((await node.cni('STATUS', { ifName: '', conf })).json).toMatchObject({ code: 50 });
    await del(node, { containerId: 'two', pod: undefined, conf });
    expect(await node.cni('STATUS', { ifName: '', conf })).toMatchObject({ status: 0, stdout: '' });
  });

  it('assigns from a single subnet given without ranges [hl-ranges]', async () => {
    const pod = await node.pod();
    await add(node, { containerId: 'one', pod, conf: withHostLocal(node, { subnet: '10.92.0.0/24' }) });
    expect(await addressesOf(pod)).toEqual(['10.92.0.2/32']);
  });
});

describe('routes of a pod with host-local', () => {
  it.each([
    { families: 'IPv4', ranges: DUAL_STACK.slice(0, 1), routes: [`0.0.0.0/0 via ${V4_GATEWAY}`] },
    { families: 'IPv6', ranges: DUAL_STACK.slice(1), routes: [`::/0 via ${V6_GATEWAY}`] },
    { families: 'both', ranges: DUAL_STACK, routes: [`0.0.0.0/0 via ${V4_GATEWAY}`, `::/0 via ${V6_GATEWAY}`] },
  ])('are the default of $families when the pod has it and none are listed [hl-routes-default]', async (given) => {
    const pod = await node.pod();
    const result = await add(node, { containerId: 'one', pod, conf: withHostLocal(node, { ranges: given.ranges }) });
    expect(result.routes.map(({ dst, gw }: Json) => `${dst} via ${gw}`)).toEqual(given.routes);
    expect(await routesOf(pod)).toEqual(given.routes);
  });

  it('are only those listed, through the link-local gateway whatever gw says [hl-routes-listed]', async () => {
    const pod = await node.pod();
    const routes = [{ dst: '192.0.2.0/24', gw: '10.90.0.1' }, { dst: '198.51.100.7/32' }, { dst: '2001:db8::/96' }];
    const result = await add(node, {
      containerId: 'one',
      pod,
      conf: withHostLocal(node, { ranges: DUAL_STACK, routes }),
    });

    const expected = [
      `192.0.2.0/24 via ${V4_GATEWAY}`,
      `198.51.100.7/32 via ${V4_GATEWAY}`,
      `2001:db8::/96 via ${V6_GATEWAY}`,
    ];
    expect(result.routes.map(({ dst, gw }: Json) => `${dst} via ${gw}`)).toEqual(expected);
    expect(await routesOf(pod)).toEqual(expected);
  });

  it('lead to the link-local gateway, not to the gateway of the range [hl-gateway]', async () => {
    const pod = await node.pod();
    const ranges = [[{ subnet: '10.90.0.0/24', gateway: '10.90.0.254' }]];
    const result = await add(node, { containerId: 'one', pod, conf: withHostLocal(node, { ranges }) });
    expect(result.ips).toEqual([{ address: '10.90.0.2/32', gateway: V4_GATEWAY, interface: 1 }]);
    expect(await routesOf(pod)).toEqual([`0.0.0.0/0 via ${V4_GATEWAY}`]);
    expect(await pod.pingOnce('10.90.0.254')).toBe(false);
  });

  it('need no gateway inside the subnet of the range [hl-gateway]', async () => {
    const pod = await node.pod();
    const ranges = [[{ subnet: '10.90.0.0/24', gateway: '203.0.113.1' }]];
    await add(node, { containerId: 'one', pod, conf: withHostLocal(node, { ranges }) });
    expect(await routesOf(pod)).toEqual([`0.0.0.0/0 via ${V4_GATEWAY}`]);
  });
});

describe('an attachment with host-local', () => {
  it('is the same when ADD is repeated', async () => {
    const pod = await node.pod();
    const conf = withHostLocal(node, { ranges: DUAL_STACK });
    const first = await add(node, { containerId: 'one', pod, conf });
    expect(await add(node, { containerId: 'one', pod, conf })).toEqual(first);
    expect(await reservations(node)).toEqual(['10.90.0.2', 'fd00:90::2']);
  });

  it('leaves nothing after DEL, with or without namespace and previous result, and DEL can be repeated', async () => {
    const pod = await node.pod();
    const conf = withHostLocal(node, { ranges: DUAL_STACK });
    const prevResult = await add(node, { containerId: 'one', pod, conf });
    await del(node, { containerId: 'one', pod, conf, prevResult });
    await expectNothingOf(node, 'one');
    await del(node, { containerId: 'one', pod, conf, prevResult });

    await add(node, { containerId: 'two', pod, conf });
    await del(node, { containerId: 'two', pod: undefined, conf });
    await expectNothingOf(node, 'two');
  });

  it("releases a reservation left by a call that died between host-local's ADD and netplug's", async () => {
    const pod = await node.pod();
    const conf = withHostLocal(node, { ranges: DUAL_STACK });
    const died = { ...conf, type: 'host-local', cniVersion: '1.0.0' };
    const call = { containerId: 'one', netns: pod.path };
    expect((await node.cni('ADD', { ...call, plugin: 'host-local', conf: died })).status).toBe(0);
    const { ips } = await add(node, { containerId: 'one', pod, conf });
    expect(ips).toHaveLength(2);
    expect(await reservations(node)).toHaveLength(2);
  });

  it('leaves no reservation when the pod already has an interface of that name', async () => {
    const pod = await node.pod();
    await pod.exec('ip', 'link', 'add', 'name', 'eth0', 'type', 'veth');
    const answer = await node.cni('ADD', {
      containerId: 'one',
      netns: pod.path,
      conf: withHostLocal(node, { ranges: DUAL_STACK }),
    });
    expect([answer.status, answer.json.code]).toEqual([1, 110]);
    await expectNothingOf(node, 'one');
  });

  it('leaves no reservation when the host routes the address elsewhere', async () => {
    const pod = await node.pod();
    await node.exec('ip', 'link', 'add', 'name', 'other0', 'type', 'veth');
    await node.exec('ip', 'link', 'set', 'dev', 'other0', 'up');
    await node.exec('ip', 'route', 'add', '10.90.0.2/32', 'dev', 'other0');
    const answer = await node.cni('ADD', {
      containerId: 'one',
      netns: pod.path,
      conf: withHostLocal(node, { ranges: DUAL_STACK }),
    });
    expect([answer.status, answer.json.code]).toEqual([1, 111]);
    expect(answer.json.msg).toContain('other0');
    await expectNothingOf(node, 'one');
    await node.exec('ip', 'link', 'delete', 'dev', 'other0');
  });

  it('passes CHECK, and fails it once host-local has lost the reservation', async () => {
    const pod = await node.pod();
    const conf = withHostLocal(node, { ranges: DUAL_STACK });
    const prevResult = await add(node, { containerId: 'one', pod, conf });
    const check = async (): Promise<CniAnswer> =>
      node.cni('CHECK', { containerId: 'one', netns: pod.path, conf: { ...conf, prevResult } });
    expect(await check()).toMatchObject({ status: 0, stdout: '' });

    for (const name of await reservations(node)) await rm(join(reservationFolder(node), name));
    expect(await check()).toMatchObject({ status: 1, json: { msg: expect.stringContaining('host-local') } });
  });

  it('is released by GC when its namespace has ended and the runtime does not list it, although host-local has neither GC nor STATUS', async () => {
    const conf = withHostLocal(node, { ranges: DUAL_STACK });
    expect(await node.cni('STATUS', { conf, ifName: '' })).toMatchObject({ status: 0, stdout: '' });
    const [kept, lost] = [await node.pod(), await node.pod()];
    await add(node, { containerId: 'kept', pod: kept, conf });
    await add(node, { containerId: 'lost', pod: lost, conf });

    const attachments = [{ containerID: 'kept', ifname: 'eth0' }];
    const collect = async (): Promise<CniAnswer> =>
      node.cni('GC', { ifName: '', conf: { ...conf, 'cni.dev/valid-attachments': attachments } });
    expect(await collect()).toMatchObject({ status: 0, stderr: expect.stringContaining('attachments kept') });
    expect(await reservations(node)).toHaveLength(4);
    await lost[Symbol.asyncDispose]();
    const answer = await collect();
    expect(answer).toMatchObject({ status: 0, stdout: '' });
    expect(await reservations(node)).toEqual(['10.90.0.2', 'fd00:90::2']);
    expect((await node.endpoints()).map(({ spec }) => spec.containerID)).toEqual(['kept']);
    expect(await node.hostLinks()).toHaveLength(1);
    expect(await addressesOf(kept)).toEqual(['10.90.0.2/32', 'fd00:90::2/128']);
  });

  it.each([
    { where: 'the subnet', ipam: { subnet: 'usePodCidr' } },
    { where: 'ranges', ipam: { ranges: [[{ subnet: 'usePodCidr' }], [{ subnet: 'usePodCidrIPv6' }]] } },
  ])(
    'is refused with usePodCidr in $where, which only the orchestrator can answer, and nothing stays behind',
    async ({ ipam }) => {
      const pod = await node.pod();
      const conf = withHostLocal(node, ipam);
      const answer = await node.cni('ADD', { containerId: 'one', netns: pod.path, conf });
      expect(answer).toMatchObject({
        status: 1,
        json: { code: 2, details: expect.stringContaining('netconf/needs-orchestrator') },
      });
      expect(answer.json.msg).toMatch(/ipam\.(subnet|ranges)/);
      await expectNothingOf(node, 'one');
      // A runtime calls DEL after an ADD that failed.
      await del(node, { containerId: 'one', pod, conf });
    },
  );
});

describe('another address plugin', () => {
  it('is named when it is not installed', async () => {
    const pod = await node.pod();
    const conf = node.netconf({ ipam: { type: 'no-such-plugin' } });
    const answer = await node.cni('ADD', { containerId: 'one', netns: pod.path, conf });
    expect(answer).toMatchObject({ status: 1, json: { code: 140, msg: expect.stringContaining('"no-such-plugin"') } });
    expect(answer.json.msg).toContain(node.cniPath);
    await expectNothingOf(node, 'one');
  });

  it('assigns addresses as well', async () => {
    const pod = await node.pod();
    await node.exec('ip', 'address', 'add', '198.51.100.1/32', 'dev', 'lo');
    const addresses = [{ address: '10.95.0.7/24', gateway: '10.95.0.1' }, { address: 'fd00:95::7/64' }];
    const conf = node.netconf({ ipam: { type: 'static', addresses } });
    const prevResult = await add(node, { containerId: 'one', pod, conf });
    expect(await addressesOf(pod)).toEqual(['10.95.0.7/32', 'fd00:95::7/128']);
    expect(await routesOf(pod)).toEqual([`0.0.0.0/0 via ${V4_GATEWAY}`, `::/0 via ${V6_GATEWAY}`]);
    expect([await node.host.ping('10.95.0.7'), await node.host.ping('fd00:95::7')]).toEqual([true, true]);
    await del(node, { containerId: 'one', pod, conf, prevResult });
    await expectNothingOf(node, 'one');
  });
});

interface Attachment {
  readonly containerId: string;
  readonly pod: TestNetns | undefined;
  readonly conf: object;
  readonly prevResult?: Json;
}

function withHostLocal(node: TestNode, ipam: object, more: object = {}): object {
  return node.netconf({ ipam: { type: 'host-local', ...ipam }, ...more });
}

async function add(node: TestNode, { containerId, pod, conf }: Attachment): Promise<Json> {
  const answer = await node.cni('ADD', { containerId, netns: pod?.path ?? '', conf });
  expect(answer).toMatchObject({ status: 0 });
  return answer.json;
}

async function del(node: TestNode, { containerId, pod, conf, prevResult }: Attachment): Promise<void> {
  const whole = prevResult === undefined ? conf : { ...conf, prevResult };
  const answer = await node.cni('DEL', { containerId, netns: pod?.path ?? '', conf: whole });
  expect(answer).toMatchObject({ status: 0, stdout: '' });
}

async function expectNothingOf(node: TestNode, containerId: string): Promise<void> {
  const endpoints = (await node.endpoints()).filter(({ spec }) => spec.containerID === containerId);
  const links = (await node.host.ip('link')).filter(({ ifalias }) => String(ifalias).includes(containerId));
  const files = [];
  for (const name of await reservations(node)) {
    const holder = await node.exec('cat', join('/var/lib/cni/networks/k8s-pod-network', name));
    if (holder.startsWith(containerId)) files.push(name);
  }
  expect({ endpoints, links, files }).toEqual({ endpoints: [], links: [], files: [] });
}

/** Where host-local writes, seen from outside. */
function reservationFolder(node: TestNode): string {
  return join(node.dir, 'var/lib/cni/networks/k8s-pod-network');
}

/** The addresses host-local has a file for. */
async function reservations(node: TestNode): Promise<string[]> {
  const names = await readdir(reservationFolder(node)).catch(() => []);
  return names.filter((name) => /^[\da-f.:]+$/.test(name)).sort();
}

async function addressesOf(pod: TestNetns): Promise<string[]> {
  const links = await pod.ip('address', 'show', 'dev', 'eth0', 'scope', 'global');
  // A filter leaves an empty object of every link and address it hides.
  const shown = links.flatMap(({ addr_info: all = [] }) => all).filter(({ local }: Json) => local !== undefined);
  return shown.map(({ local, prefixlen }: Json) => `${local}/${prefixlen}`);
}

/** What is reached through a gateway, IPv4 first. */
async function routesOf(pod: TestNetns): Promise<string[]> {
  const found = [];
  for (const [family, all, bits] of [
    ['-4', '0.0.0.0/0', '32'],
    ['-6', '::/0', '128'],
  ] as const) {
    for (const { dst, gateway } of await pod.ip(family, 'route')) {
      if (gateway === undefined) continue;
      const cidr = String(dst === 'default' ? all : dst);
      found.push(`${cidr.includes('/') ? cidr : `${cidr}/${bits}`} via ${gateway}`);
    }
  }
  return found;
}
