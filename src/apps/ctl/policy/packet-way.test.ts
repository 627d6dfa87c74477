import { beforeEach, describe, expect, it } from 'vitest';
import { type CtlCluster, ctlCluster, policyOf, podOf } from '../../../../test/support/ctl-cluster.ts';
import type { ExplainedConnections } from './explain-connection.ts';

const apiVersion = 'netplug.io/v3';
const TUNNELS = { n1: '10.0.0.81', n2: '10.0.0.82' };
/** Every interface of node n2. */
const HOST_N2 = {
  apiVersion,
  kind: 'HostEndpoint',
  metadata: { name: 'n2', labels: { name: 'n2' } },
  spec: { node: 'n2', interfaceName: '*' },
};

let cluster: CtlCluster;

async function explained(argv: string): Promise<ExplainedConnections> {
  const { out, err } = await cluster.run(`policy why ${argv} -o json`);
  if (out === '') throw new Error(err);
  return JSON.parse(out) as ExplainedConnections;
}

async function pool(spec: object): Promise<void> {
  await cluster.apply({ apiVersion, kind: 'IPPool', metadata: { name: 'v4' }, spec: { cidr: '10.0.0.0/24', ...spec } });
}

beforeEach(async () => {
  const fip = podOf('fip', 'n2', ['10.0.0.3/32']);
  const ipNATs = [{ internalIP: '10.0.0.3', externalIP: '203.0.113.9' }];
  cluster = await ctlCluster([
    podOf('web', 'n1', ['10.0.0.1/32']),
    podOf('db', 'n2', ['10.0.0.2/32']),
    { ...fip, spec: { ...fip.spec, ipNATs } },
  ]);
  for (const [index, name] of (['n1', 'n2'] as const).entries())
    await cluster.apply({
      apiVersion,
      kind: 'Node',
      metadata: { name },
      spec: {
        bgp: { ipv4Address: `192.0.2.${String(index + 1)}/24` },
        ipv4VXLANTunnelAddr: TUNNELS[name],
        vxlanTunnelMACAddr: `02:00:00:00:00:0${String(index + 1)}`,
      },
    });
});

const ingressOf = (app: string, rule: object): object =>
  policyOf(app, { selector: `app == '${app}'`, types: ['Ingress'], ingress: [{ action: 'Allow', ...rule }] });
const fromNets = (...nets: string[]): object => ({ source: { nets } });

describe('the packet that netplugctl policy why judges', () => {
  it.each([
    ['Always', '10.0.0.81', true],
    ['Never', '192.0.2.1', false],
  ])('comes from a process of a node, with VXLAN %s, from %s', async (vxlanMode, address, isTunnelled) => {
    await pool({ vxlanMode });
    await cluster.apply(ingressOf('db', fromNets(`${address}/32`)));
    const { verdict, connections } = await explained('host/n1 shop/db --port 80');
    expect([verdict, connections[0]?.source]).toEqual(['allow', address]);
    const note = `node n1 sends it from ${address}, the address of its tunnel`;
    expect(connections[0]?.notes.some((each) => each.startsWith(note))).toBe(isTunnelled);
    // The address of the tunnel stands for that of the node.
    await cluster.apply(ingressOf('db', fromNets('192.0.2.1/32')));
    expect(await explained('host/n1 shop/db --port 80')).toMatchObject({ verdict: 'allow' });
    await cluster.apply(ingressOf('db', fromNets('192.0.2.2/32')));
    expect(await explained('host/n1 shop/db --port 80')).toMatchObject({ verdict: 'deny' });
  });

  it('reaches another node from the address of the node of its pod, with natOutgoing', async () => {
    const closed = { selector: "name == 'n2'", types: ['Ingress'] };
    await cluster.apply(HOST_N2, {
      apiVersion,
      kind: 'GlobalNetworkPolicy',
      metadata: { name: 'pods' },
      spec: { ...closed, ingress: [{ action: 'Allow', source: { selector: "app == 'web'" } }] },
    });
    await pool({ natOutgoing: false });
    expect(await explained('shop/web host/n2 --port 80')).toMatchObject({ verdict: 'allow' });
    await pool({ natOutgoing: true });
    const { verdict, connections } = await explained('shop/web host/n2 --port 80');
    expect([verdict, connections[0]?.arrivesFrom]).toEqual(['deny', '192.0.2.1']);
    expect(connections[0]?.notes).toContain('it leaves node n1 from 192.0.2.1: IPPool v4 has natOutgoing');
    // Between pods nothing is translated.
    expect((await explained('shop/web shop/db --port 80')).connections[0]).not.toHaveProperty('arrivesFrom');
  });

  it('has the address of the pod behind a floating IP only on the node of that pod', async () => {
    await cluster.apply(ingressOf('fip', fromNets('198.51.100.0/24')));
    expect(await explained('198.51.100.1 203.0.113.9 --port 80')).toMatchObject({
      to: 'shop/fip',
      verdict: 'allow',
      connections: [{ destination: '10.0.0.3', sentTo: '203.0.113.9 port 80' }],
    });
    expect(await explained('shop/web 203.0.113.9 --port 80')).toMatchObject({ verdict: 'deny' });
    const egress = (net: string, app: string): object =>
      policyOf('out', { selector: `app == '${app}'`, egress: [{ action: 'Allow', destination: { nets: [net] } }] });
    await cluster.apply(ingressOf('fip', {}), egress('203.0.113.9/32', 'web'));
    expect(await explained('shop/web 203.0.113.9 --port 80')).toMatchObject({ verdict: 'allow' });
    await cluster.apply(egress('203.0.113.9/32', 'db'));
    expect(await explained('shop/db 203.0.113.9 --port 80')).toMatchObject({ verdict: 'deny' });
    // To itself by that address, it comes back through the node.
    await cluster.apply(ingressOf('fip', { source: { selector: "app == 'db'" } }));
    expect(await explained('shop/fip 203.0.113.9 --port 80')).toMatchObject({ verdict: 'deny' });
    expect(await explained('shop/fip shop/fip --port 80')).toMatchObject({ verdict: 'allow' });
  });

  it('leaves from the floating IP of its pod to what is outside all pools', async () => {
    await pool({ natOutgoing: true });
    const { connections } = await explained('shop/fip 198.51.100.1 --port 80');
    expect(connections[0]?.notes).toContain('it leaves node n2 from 203.0.113.9, the floating IP of the pod');
  });

  it('is what policies before translation say of it, and named so', async () => {
    await cluster.apply(HOST_N2, {
      apiVersion,
      kind: 'GlobalNetworkPolicy',
      metadata: { name: 'before' },
      spec: {
        selector: "name == 'n2'",
        preDNAT: true,
        applyOnForward: true,
        ingress: [{ action: 'Deny', destination: { nets: ['203.0.113.9/32'] } }],
      },
    });
    expect(await explained('198.51.100.1 203.0.113.9 --port 80')).toMatchObject({
      verdict: 'deny',
      connections: [{ entering: { paths: [{ path: 'preDNAT', decidedBy: 'GlobalNetworkPolicy before' }] } }],
    });
    expect(await explained('198.51.100.1 shop/fip --port 80')).toMatchObject({ verdict: 'allow' });
  });
});
