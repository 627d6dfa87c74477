import { beforeEach, describe, expect, it } from 'vitest';
import type { Ran } from '../../../../test/support/ctl.ts';
import { type CtlCluster, ctlCluster, policyOf, podOf } from '../../../../test/support/ctl-cluster.ts';
import { SERVICE_ACCOUNT_LABEL } from '../../../model/policy-names.ts';
import type { ExplainedConnections } from './explain-connection.ts';

let cluster: CtlCluster;

async function run(argv: string): Promise<Ran> {
  return cluster.run(argv);
}

async function apply(...items: readonly object[]): Promise<void> {
  return cluster.apply(...items);
}

async function explained(argv: string): Promise<ExplainedConnections> {
  return JSON.parse((await run(`policy why ${argv} -o json`)).out) as ExplainedConnections;
}

beforeEach(async () => {
  cluster = await ctlCluster([
    podOf('web', 'n1', ['10.0.0.1/32', 'fd00::1/128']),
    podOf('db', 'n2', ['10.0.0.2/32', 'fd00::2/128']),
    podOf('legacy', 'n2', ['10.0.0.3/32']),
    podOf('done', 'n2', []),
  ]);
  await apply(
    {
      apiVersion: 'netplug.io/v3',
      kind: 'Node',
      metadata: { name: 'n1' },
      spec: { bgp: { ipv4Address: '192.0.2.1/24' }, ipv4VXLANTunnelAddr: '10.9.0.1' },
    },
    { apiVersion: 'netplug.io/v3', kind: 'Node', metadata: { name: 'bare' }, spec: {} },
  );
});

describe('netplugctl policy why', () => {
  it('names the profile that allows when no policy applies', async () => {
    expect(await run('policy why shop/legacy shop/web --port 80')).toEqual({
      status: 0,
      err: '',
      out: `shop/legacy -> shop/web, TCP port 80: allowed

10.0.0.3 -> 10.0.0.1: allowed
  egress of shop/legacy on node n2: allowed
    no policy decides; Profile kns.shop, egress[0]: Allow all traffic
    no policy applies
  ingress of shop/web on node n1: allowed
    no policy decides; Profile kns.shop, ingress[0]: Allow all traffic
    no policy applies
`,
    });
  });

  it('names the rule that decides, and the policies considered before it', async () => {
    await apply(
      policyOf('base', { order: 1, selector: "app == 'db'", ingress: [{ action: 'Deny', protocol: 'UDP' }] }),
      policyOf('db', {
        order: 2,
        selector: "app == 'db'",
        ingress: [
          { action: 'Log', protocol: 'TCP' },
          {
            action: 'Allow',
            protocol: 'TCP',
            source: { selector: "app == 'web'" },
            destination: { ports: ['http'] },
          },
        ],
      }),
    );
    const { status, out } = await run('policy why shop/web 10.0.0.2 --port 8080');
    expect(status).toBe(0);
    expect(out).toContain(`  ingress of shop/db on node n2: allowed
    NetworkPolicy shop/db, ingress[1]: Allow TCP from (netplug/namespace == "shop" && app == "web") to port http
    considered, in order
      NetworkPolicy shop/base: no rule matches
      NetworkPolicy shop/db: ingress[1]: Allow TCP from (netplug/namespace == "shop" && app == "web") to port http, logged by ingress[0]
`);
    const denied = await run('policy why shop/legacy shop/db --port 8080');
    expect(denied.status).toBe(1);
    expect(denied.out).toContain(
      'no rule matches of NetworkPolicy shop/base, NetworkPolicy shop/db: what policies that apply do not allow is denied',
    );
    const udp = await explained('shop/web shop/db --protocol UDP --port 8080');
    expect(udp.connections).toHaveLength(2);
    expect(udp.connections[1]?.ingress).toMatchObject({
      verdict: 'deny',
      decidedBy: 'NetworkPolicy shop/base',
      rule: { place: 'ingress[0]', text: 'Deny UDP' },
      considered: [{ policy: 'NetworkPolicy shop/base' }],
    });
  });

  it('denies when one IP family of two is denied, and explains each', async () => {
    await apply(policyOf('v4', { selector: 'all()', ingress: [{ action: 'Allow', ipVersion: 4, protocol: 'ICMP' }] }));
    const { verdict, connections } = await explained('shop/web shop/db --protocol ICMP');
    expect(verdict).toBe('deny');
    expect(connections.map(({ source, verdict: each }) => [source, each])).toEqual([
      ['10.0.0.1', 'allow'],
      ['fd00::1', 'deny'],
    ]);
    expect(await explained('10.0.0.1 10.0.0.2 --protocol ICMP')).toMatchObject({ verdict: 'allow' });
  });

  it('names the rule that is about other requests than the one that is denied', async () => {
    await apply(
      policyOf('db', {
        selector: "app == 'db'",
        ingress: [
          { action: 'Allow', protocol: 'TCP', destination: { ports: [81] }, http: {} },
          { action: 'Allow', protocol: 'TCP', destination: { ports: [80] }, http: { methods: ['GET'] } },
        ],
      }),
    );
    const { status, out } = await run('policy why shop/web shop/db --port 80 --method DELETE --path /items/1?x=2');
    expect(status).toBe(1);
    expect(out).toContain('shop/web -> shop/db, DELETE /items/1?x=2 at TCP port 80: denied');
    expect(out).toContain(
      'NetworkPolicy shop/db: no rule matches; ingress[1] is about other requests: Allow TCP requests (GET) to port 80',
    );
    expect((await run('policy why shop/web shop/db --port 82 --method GET')).out).not.toContain('other requests');
  });

  it('blames the request for nothing that the account of its client decides', async () => {
    const source = { serviceAccounts: { names: ['gateway'] } };
    await apply(policyOf('db', { selector: "app == 'db'", ingress: [{ action: 'Allow', source, http: {} }] }));
    const { status, out } = await run('policy why shop/web shop/db --port 80 --method GET --account shop/other');
    expect([status, out]).toEqual([1, expect.not.stringContaining('other requests')]);
  });

  it('says of a request what its sidecar says, where certificates alone tell who asks', async () => {
    await apply(
      policyOf('db', {
        selector: "app == 'db'",
        ingress: [{ action: 'Allow', source: { serviceAccounts: { names: ['default'] } }, http: {} }],
      }),
      {
        apiVersion: 'netplug.io/v3',
        kind: 'Profile',
        metadata: { name: 'ksa.shop.default' },
        spec: { labelsToApply: { [SERVICE_ACCOUNT_LABEL]: 'default' } },
      },
    );
    expect((await run('policy why shop/web shop/db --port 80 --method GET')).status).toBe(0);
    await apply({
      apiVersion: 'netplug.io/v3',
      kind: 'AgentConfiguration',
      metadata: { name: 'default' },
      spec: { applicationLayerIdentity: 'Certificate' },
    });
    expect((await run('policy why shop/web shop/db --port 80 --method GET')).status).toBe(1);
    expect((await run('policy why shop/web shop/db --port 80 --method GET --probe')).err).toContain(
      'a packet is no request',
    );
  });

  it('refuses to probe without root', async () => {
    const { status, err } = await run('policy why shop/web shop/db --port 80 --probe');
    expect(status).toBe(69);
    expect(err).toContain('policy/probe-impossible');
  });

  it('lets a node reach its own pods, and applies policies to other nodes', async () => {
    await apply(policyOf('closed', { selector: 'all()', types: ['Ingress'] }));
    const own = await run('policy why host/n1 shop/web --port 80');
    expect(own.status).toBe(0);
    expect(own.out).toContain('a node always reaches its own pods');
    expect(await explained('10.9.0.1 shop/db --port 80')).toMatchObject({ from: 'host/n1', verdict: 'deny' });
    expect(await explained('198.51.100.1 shop/db --port 80')).toMatchObject({
      verdict: 'deny',
      notes: ['no pod and no node has the address 198.51.100.1'],
    });
  });

  it('says when the configuration of the agent drops packets of pods to their own node', async () => {
    expect((await run('policy why shop/web host/n1')).status).toBe(0);
    const spec = { defaultEndpointToHostAction: 'Drop' };
    await apply({ apiVersion: 'netplug.io/v3', kind: 'AgentConfiguration', metadata: { name: 'default' }, spec });
    const { status, out } = await run('policy why shop/web host/n1');
    expect(status).toBe(1);
    expect(out).toContain('the AgentConfiguration of node n1 drops packets of pods to their own node');
    expect((await run('policy why shop/db host/n1')).status).toBe(0);
    const own = { ...spec, defaultEndpointToHostAction: 'Accept' };
    await apply({ apiVersion: 'netplug.io/v3', kind: 'AgentConfiguration', metadata: { name: 'node.n1' }, spec: own });
    expect((await run('policy why shop/web host/n1')).status).toBe(0);
  });

  it('names what a host endpoint says, path by path, and what failsafe ports keep open', async () => {
    const spec = { node: 'n1', interfaceName: '*' };
    await apply({ apiVersion: 'netplug.io/v3', kind: 'HostEndpoint', metadata: { name: 'all' }, spec });
    const denied = await run('policy why 198.51.100.1 host/n1 --port 80');
    expect(denied.status).toBe(1);
    expect(denied.out).toContain(`
198.51.100.1 -> 192.0.2.1: denied
  ingress at HostEndpoint all of node n1, process of the node: denied
    no policy decides, and the endpoint has no profile
    no policy applies
`);
    const ssh = await explained('198.51.100.1 host/n1 --port 22');
    expect(ssh).toMatchObject({
      verdict: 'allow',
      connections: [{ entering: { hostEndpoint: 'all', paths: [{ path: 'local', verdict: 'allow' }] } }],
    });
    const failsafeInboundHostPorts = [{ protocol: 'TCP', port: 80 }];
    await apply({
      apiVersion: 'netplug.io/v3',
      kind: 'AgentConfiguration',
      metadata: { name: 'node.n1' },
      spec: { failsafeInboundHostPorts },
    });
    expect(await explained('198.51.100.1 host/n1 --port 80')).toMatchObject({ verdict: 'allow' });
    expect(await explained('198.51.100.1 host/n1 --port 22')).toMatchObject({ verdict: 'deny' });
    expect(await explained('198.51.100.1 shop/web --port 81')).toMatchObject({ verdict: 'allow' });
    await apply({
      apiVersion: 'netplug.io/v3',
      kind: 'GlobalNetworkPolicy',
      metadata: { name: 'forward' },
      spec: {
        selector: '!has(netplug/namespace)',
        types: ['Ingress'],
        applyOnForward: true,
        ingress: [{ action: 'Deny', protocol: 'TCP', destination: { ports: [81] } }],
      },
    });
    expect(await explained('198.51.100.1 shop/web --port 81')).toMatchObject({
      verdict: 'deny',
      connections: [{ entering: { paths: [{ path: 'forwarded', decidedBy: 'GlobalNetworkPolicy forward' }] } }],
    });
    // What stays on the node passes no host endpoint.
    expect(await explained('host/n1 shop/web --port 81')).toMatchObject({ verdict: 'allow' });
  });

  it('says that a host endpoint closes no server of the datastore', async () => {
    const spec = { node: 'n1', interfaceName: '*' };
    await apply({ apiVersion: 'netplug.io/v3', kind: 'HostEndpoint', metadata: { name: 'all' }, spec });
    cluster.servers.push('https://198.51.100.1:8443');
    const { status, out } = await run('policy why host/n1 198.51.100.1 --port 8443');
    expect([status, out]).toEqual([0, expect.stringContaining('a server of the datastore: no policy of a host')]);
    for (const to of ['198.51.100.1 --port 8444', '198.51.100.2 --port 8443'])
      expect(await explained(`host/n1 ${to}`)).toMatchObject({ verdict: 'deny' });
    expect(await explained('198.51.100.1 host/n1 --port 8443')).toMatchObject({ verdict: 'deny' });
  });

  it('takes the host endpoint that expects the address of the node, and names those of other interfaces', async () => {
    for (const [name, spec] of [
      ['all', { interfaceName: '*' }],
      ['front', { interfaceName: 'eth0', expectedIPs: ['192.0.2.1'], profiles: ['netplug-default-allow'] }],
      ['back', { interfaceName: 'eth1' }],
    ] as const)
      await apply({
        apiVersion: 'netplug.io/v3',
        kind: 'HostEndpoint',
        metadata: { name },
        spec: { node: 'n1', ...spec },
      });
    const said = await explained('198.51.100.1 host/n1 --port 80');
    expect(said).toMatchObject({ verdict: 'allow', connections: [{ entering: { hostEndpoint: 'front' } }] });
    expect(said.notes).toContain('packets that pass interface eth1 of node n1 meet HostEndpoint back instead');
  });

  it.each([
    ['Always', '192.0.2.2/24', 'allow'],
    ['CrossSubnet', '198.51.100.2/24', 'allow'],
    ['CrossSubnet', '192.0.2.2/24', 'deny'],
    ['Never', '192.0.2.2/24', 'deny'],
  ])('follows packets of pods into the tunnel of a pool with VXLAN %s to %s', async (vxlanMode, there, verdict) => {
    const apiVersion = 'netplug.io/v3';
    const closed = (name: string, spec: object): object => ({
      apiVersion,
      kind: 'HostEndpoint',
      metadata: { name, labels: { name } },
      spec: { node: 'n2', ...spec },
    });
    const forward = (name: string): object => ({
      apiVersion,
      kind: 'GlobalNetworkPolicy',
      metadata: { name },
      spec: { selector: `name == '${name}'`, applyOnForward: true, ingress: [{ action: 'Deny' }] },
    });
    await apply(
      { apiVersion, kind: 'IPPool', metadata: { name: 'v4' }, spec: { cidr: '10.0.0.0/24', vxlanMode } },
      {
        apiVersion,
        kind: 'Node',
        metadata: { name: 'n2' },
        spec: { bgp: { ipv4Address: there }, ipv4VXLANTunnelAddr: '10.0.0.9', vxlanTunnelMACAddr: '02:00:00:00:00:02' },
      },
      closed('front', { interfaceName: 'eth0', expectedIPs: ['192.0.2.2', '198.51.100.2'] }),
      // The kernel has no such endpoint at a tunnel.
      closed('expecting', { expectedIPs: ['10.0.0.9'] }),
      forward('expecting'),
      forward('front'),
    );
    const said = await explained('10.0.0.1 10.0.0.2 --port 80');
    expect(said.verdict).toBe(verdict);
    expect(said.connections[0]?.entering?.hostEndpoint).toBe(verdict === 'allow' ? undefined : 'front');
    await apply(closed('inside', { interfaceName: 'vxlan.netplug' }), forward('inside'));
    expect(await explained('10.0.0.1 10.0.0.2 --port 80')).toMatchObject({
      verdict: 'deny',
      connections: [{ entering: { hostEndpoint: verdict === 'allow' ? 'inside' : 'front' } }],
    });
  });

  it('writes YAML', async () => {
    const { out } = await run('policy why shop/legacy shop/web --port 80 -o yaml');
    expect(out).toContain('from: shop/legacy\nto: shop/web\nprotocol: TCP\nport: 80\nverdict: allow\n');
  });

  it.each([
    ['shop/none shop/web', 66, 'Cannot find pod "shop/none"'],
    ['shop/done shop/web', 66, 'Cannot find an address of pod "shop/done"'],
    ['shop/web host/none', 66, 'Cannot find node "none"'],
    ['shop/web host/bare', 66, 'Cannot find an address of node "bare"'],
    ['web shop/db', 64, 'Cannot explain "web"'],
    ['fd00::1 shop/legacy', 64, 'they have no IP family in common'],
    ['shop/web shop/db --port 80 --protocol ICMP', 64, 'Cannot use --port with ICMP'],
    ['shop/web shop/db --port 70000', 64, 'Allowed is a port from 1 to 65535'],
  ])('refuses %s', async (argv, status, text) => {
    expect(await run(`policy why ${argv}`)).toMatchObject({ status, out: '', err: expect.stringContaining(text) });
  });
});
