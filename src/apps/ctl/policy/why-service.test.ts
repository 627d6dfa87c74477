import { beforeEach, describe, expect, it } from 'vitest';
import { type CtlCluster, ctlCluster, dnsCacheAnswers, policyOf, podOf } from '../../../../test/support/ctl-cluster.ts';
import type { CannedAnswers } from '../../../../test/support/canned-api.ts';
import type { ExplainedConnections } from './explain-connection.ts';

let cluster: CtlCluster;

interface TestService {
  readonly name: string;
  readonly spec: object;
  readonly status?: object;
  /** `ADDRESS@NODE`. */
  readonly endpoints?: readonly string[];
}

/** Services of the namespace `shop`. Paths are answered without their queries, so that all slices are one answer. */
function answersOf(...services: readonly TestService[]): CannedAnswers {
  const objects = services.map(({ name, spec, status = {} }) => ({
    metadata: { name, namespace: 'shop' },
    spec,
    status,
  }));
  const slices = services.flatMap(({ name, endpoints = [] }) => ({
    metadata: { name: `${name}-1`, namespace: 'shop', labels: { 'kubernetes.io/service-name': name } },
    endpoints: endpoints
      .map((each) => each.split('@'))
      .map(([address = '', nodeName]) => ({
        addresses: [address],
        nodeName,
        conditions: { ready: true },
      })),
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  }));
  const list = (items: readonly object[]): object => ({ metadata: { resourceVersion: '1' }, items });
  return {
    '/api/v1/services': list(objects),
    '/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices': list(slices),
    ...Object.fromEntries(objects.map((each) => [`/api/v1/namespaces/shop/services/${each.metadata.name}`, each])),
  };
}

const DB: TestService = {
  name: 'db',
  spec: {
    type: 'NodePort',
    clusterIP: '10.96.0.7',
    ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 'http', nodePort: 30_080 }],
  },
  endpoints: ['10.0.0.2@n2', '10.0.0.3@n2'],
};

async function explained(argv: string): Promise<ExplainedConnections> {
  const { out, err } = await cluster.run(`policy why ${argv} -o json`);
  if (out === '') throw new Error(err);
  return JSON.parse(out) as ExplainedConnections;
}

beforeEach(async () => {
  cluster = await ctlCluster([
    podOf('web', 'n1', ['10.0.0.1/32']),
    podOf('db', 'n2', ['10.0.0.2/32']),
    podOf('legacy', 'n2', ['10.0.0.3/32']),
  ]);
  const node = (name: string, own: string): object => ({
    apiVersion: 'netplug.io/v3',
    kind: 'Node',
    metadata: { name },
    spec: { bgp: { ipv4Address: own } },
  });
  await cluster.apply(node('n1', '192.0.2.1/24'), node('n2', '192.0.2.2/24'));
  cluster.api = answersOf(DB);
});

/** Allows what the selector finds, at the target port. */
const only = (selector: string): object =>
  policyOf('db', {
    selector: "app == 'db'",
    ingress: [{ action: 'Allow', protocol: 'TCP', source: { selector }, destination: { ports: [8080] } }],
  });

describe('netplugctl policy why, to a Service', () => {
  it.each(['svc/shop/db', 'svc/db', '10.96.0.7'])('judges every backend of %s', async (to) => {
    await cluster.apply(only("app == 'legacy'"));
    const { status, out } = await cluster.run(`policy why shop/web ${to} --port 80`);
    expect(status).toBe(1);
    expect(out).toContain('shop/web -> svc/shop/db, TCP port 80: allowed to 1 of 2 backends\n');
    expect(out).toContain('10.0.0.1 -> 10.0.0.2: denied\n');
    expect(out).toContain('10.0.0.1 -> 10.0.0.3: allowed\n');
    expect(out).toContain('Service shop/db (10.96.0.7) is translated to 10.0.0.2 port 8080 on node n1\n');
    expect(await explained(`shop/web ${to} --port 80`)).toMatchObject({
      verdict: 'some',
      connections: [{ verdict: 'deny', sentTo: '10.96.0.7 port 80' }, { verdict: 'allow' }],
    });
    await cluster.apply(only("app == 'web'"));
    expect(await explained(`shop/web ${to} --port 80`)).toMatchObject({ verdict: 'allow' });
  });

  it('takes the only port of a Service, and names its ports where one must be chosen', async () => {
    expect(await explained('shop/web svc/db')).toMatchObject({ port: 80, verdict: 'allow' });
    for (const asked of ['--port 81', '--protocol UDP', '--protocol ICMP']) {
      const { status, err } = await cluster.run(`policy why shop/web svc/db ${asked}`);
      expect([status, err]).toEqual([64, expect.stringContaining('TCP 80')]);
    }
    expect((await cluster.run('policy why shop/web svc/none')).status).toBe(66);
    expect((await cluster.run('policy why shop/web svc/a/b/c')).status).toBe(64);
  });

  it('says that a Service without ready endpoints leads nowhere', async () => {
    cluster.api = answersOf({ ...DB, endpoints: [] });
    const { status, out } = await cluster.run('policy why shop/web svc/db --port 80');
    expect(status).toBe(1);
    expect(out).toBe(`shop/web -> svc/shop/db, TCP port 80: no backend is reached

note: Service shop/db has no ready endpoint: kube-proxy rejects the connection
`);
  });

  it('judges a pod that comes back to itself by its own address', async () => {
    cluster.api = answersOf({ ...DB, endpoints: ['10.0.0.2@n2'] });
    await cluster.apply(only("app == 'web'"));
    const direct = await cluster.run('policy why shop/db shop/db --port 8080');
    expect([direct.status, direct.out]).toEqual([0, expect.stringContaining('the packet never leaves the pod')]);
    const byService = await cluster.run('policy why shop/db svc/db --port 80');
    expect([byService.status, byService.out]).toEqual([
      1,
      expect.stringContaining('it comes back to the pod that sends'),
    ]);
    await cluster.apply(only("app == 'db'"));
    expect(await explained('shop/db svc/db --port 80')).toMatchObject({ verdict: 'allow' });
  });

  it('takes the address of the node for masqueraded clients of a node port on another node', async () => {
    const source = { nets: ['192.0.2.1/32'] };
    await cluster.apply(
      policyOf('db', { selector: "app in {'db', 'legacy'}", ingress: [{ action: 'Allow', source }] }),
    );
    const toNode = async (name: string): Promise<ExplainedConnections> =>
      explained(`198.51.100.1 host/${name} --port 30080`);
    expect(await toNode('n1')).toMatchObject({ verdict: 'allow', connections: [{ arrivesFrom: '192.0.2.1' }, {}] });
    // On the node of the backend, policies see the client.
    expect(await toNode('n2')).toMatchObject({ to: 'svc/shop/db', verdict: 'deny' });
    expect((await toNode('n2')).connections[0]).not.toHaveProperty('arrivesFrom');
    // Other ports of the node are its own.
    expect(await explained('198.51.100.1 host/n2 --port 30081')).toMatchObject({ to: 'host/n2' });
  });

  it('says that kube-proxy may masquerade a pod of one of several pools, which another node then sees as its node', async () => {
    const poolOf = (name: string, cidr: string): object => ({
      apiVersion: 'netplug.io/v3',
      kind: 'IPPool',
      metadata: { name },
      spec: { cidr },
    });
    const note =
      'not known is whether 10.0.0.1 is in the --cluster-cidr of kube-proxy: if not, node n2 sees the address';
    const said = async (argv: string): Promise<boolean> =>
      (await explained(argv)).connections.some(({ notes }) => notes.join().includes(note));
    await cluster.apply(poolOf('a', '10.0.0.0/24'));
    expect(await said('shop/web svc/db')).toBe(false);
    await cluster.apply(poolOf('b', '10.1.0.0/24'));
    expect(await said('shop/web svc/db')).toBe(true);
    expect(await said('shop/web shop/db --port 8080')).toBe(false);
    // On the node that translates, policies see the pod.
    cluster.api = answersOf({ ...DB, endpoints: ['10.0.0.1@n1'] });
    expect(await said('shop/web svc/db')).toBe(false);
  });

  it('says that kube-proxy drops what loadBalancerSourceRanges leave out, at addresses of the load balancer alone', async () => {
    const ranges = { externalIPs: ['203.0.113.8'], loadBalancerSourceRanges: [' 192.0.2.0/24', '198.51.100.9/25'] };
    const status = { loadBalancer: { ingress: [{ ip: '203.0.113.7' }] } };
    cluster.api = answersOf({ ...DB, spec: { ...DB.spec, ...ranges, type: 'LoadBalancer' }, status });
    const { status: code, out } = await cluster.run('policy why 198.51.100.200 203.0.113.7 --port 80');
    expect(code).toBe(1);
    expect(out).toContain('TCP port 80: no backend is reached\n');
    expect(out).toContain(
      'no range of loadBalancerSourceRanges of Service shop/db has 198.51.100.200: kube-proxy drops the packet\n',
    );
    for (const allowed of [
      '198.51.100.1 203.0.113.7 --port 80',
      '198.51.100.200 203.0.113.8 --port 80',
      '198.51.100.200 host/n2 --port 30080',
    ])
      expect(await explained(allowed)).toMatchObject({ to: 'svc/shop/db', verdict: 'allow' });
    expect(await explained('shop/web 203.0.113.7 --port 80')).toMatchObject({ verdict: 'none', connections: [] });
  });

  it('says what policies see of ExternalName, and takes the port as it is for a headless one', async () => {
    cluster.api = answersOf(
      { name: 'far', spec: { type: 'ExternalName', externalName: 'db.example.com' } },
      { name: 'db', spec: { clusterIP: 'None', ports: [{ name: 'http', port: 80 }] }, endpoints: ['10.0.0.2@n2'] },
    );
    const far = await cluster.run('policy why shop/web svc/far --port 80');
    expect([far.status, far.err]).toEqual([64, expect.stringContaining('"db.example.com" (ExternalName)')]);
    await cluster.apply(only("app == 'web'"));
    expect(await explained('shop/web svc/db --port 8080')).toMatchObject({ verdict: 'allow' });
    expect(await explained('shop/web svc/db --port 80')).toMatchObject({ verdict: 'deny' });
  });

  it('shows a few of many backends, those that are denied first', async () => {
    const many = Array.from({ length: 20 }, (_, index) => `10.0.1.${String(index)}@n2`);
    cluster.api = answersOf({ ...DB, endpoints: [...many, '10.0.0.2@n2'] });
    await cluster.apply(only("app == 'legacy'"));
    const { out } = await cluster.run('policy why shop/web svc/db');
    expect(out).toContain('allowed to 20 of 21 backends');
    expect(out.match(/^10\.0\.0\.1 -> /gm)).toHaveLength(6);
    expect(out).toContain('15 more backends: allowed (-o json lists them)\n');
  });

  it('says that it is not known whether an address is that of a Service, when Services cannot be read', async () => {
    cluster.api = { '/api/v1/services': 403 };
    const { status, out } = await cluster.run('policy why shop/web 10.96.0.7 --port 80');
    expect([status, out]).toEqual([0, expect.stringContaining('whether a Service has the address is not known: ')]);
    cluster.api = answersOf();
    const { notes } = await explained('shop/web 10.96.0.7 --port 80');
    expect(notes).toEqual(['no pod, no node and no Service has the address 10.96.0.7']);
  });

  it('ends at the DNS cache of the node where that has the address, also that of the Service', async () => {
    const spec = { clusterIP: '10.96.0.7', ports: [{ name: 'http', port: 53, protocol: 'TCP' }] };
    const service = answersOf({ name: 'dns', spec, endpoints: ['10.0.0.2@n2'] });
    const withCache = (state: object): CannedAnswers => ({
      ...service,
      ...dnsCacheAnswers(['169.254.20.10', '10.96.0.7'], state),
      '/api/v1/services': service['/api/v1/services']!,
    });
    cluster.api = withCache({});
    await cluster.apply(
      policyOf('web', {
        selector: "app == 'web'",
        egress: [{ action: 'Allow', destination: { nets: ['169.254.20.10/32', '10.0.0.2/32'] } }],
      }),
    );
    for (const [to, verdict, address] of [
      ['169.254.20.10', 'allow', '169.254.20.10'],
      ['svc/dns', 'deny', '10.96.0.7'],
    ] as const) {
      const said = await explained(`shop/web ${to} --port 53`);
      expect(said).toMatchObject({ verdict, connections: [{ destination: address }] });
      expect(said.notes).toEqual([`the DNS cache of node n1 answers at ${address}: packets end at the node`]);
    }
    const toService = { verdict: 'allow', connections: [{ destination: '10.0.0.2' }] };
    for (const state of [{ node: 'n2' }, { phase: 'Failed' }]) {
      cluster.api = withCache(state);
      expect(await explained('shop/web svc/dns --port 53')).toMatchObject({ ...toService, notes: [] });
    }
    cluster.api = withCache({ ready: 'False' });
    const notes = [expect.stringMatching(/^the DNS cache of node n1 has the address, and is not ready: /)];
    expect(await explained('shop/web svc/dns --port 53')).toMatchObject({ ...toService, notes });
  });
});

describe('netplugctl policy why, through a node port of another node', () => {
  const apiVersion = 'netplug.io/v3';
  const atNode = (spec: object): object => ({
    apiVersion,
    kind: 'GlobalNetworkPolicy',
    metadata: { name: 'at-node' },
    spec: { selector: "name == 'n2'", ...spec },
  });

  beforeEach(async () => {
    cluster.api = answersOf({ ...DB, endpoints: ['10.0.0.2@n2'] });
    await cluster.apply({
      apiVersion,
      kind: 'HostEndpoint',
      metadata: { name: 'n2', labels: { name: 'n2' } },
      spec: { node: 'n2', interfaceName: '*' },
    });
  });

  it('judges what comes back where it enters its node again, from the node that passes it on', async () => {
    const ingress = [{ action: 'Deny', source: { nets: ['192.0.2.1/32'] } }, { action: 'Allow' }];
    await cluster.apply(atNode({ applyOnForward: true, types: ['Ingress'], ingress }));
    const { verdict, connections } = await explained('shop/db host/n1 --port 30080');
    expect([verdict, connections]).toMatchObject([
      'deny',
      [{ arrivesFrom: '192.0.2.1', entering: { hostEndpoint: 'n2', verdict: 'deny' } }],
    ]);
    // Not from its own address, as it would without another node.
    expect(connections[0]?.notes.join()).not.toContain('it comes back to the pod');
    expect(await explained('shop/legacy host/n2 --port 30080')).toMatchObject({ verdict: 'allow' });
  });

  it('does not take it for a packet of a pod to its own node', async () => {
    cluster.api = answersOf({ ...DB, endpoints: ['192.0.2.2@n2'] });
    const spec = { defaultEndpointToHostAction: 'Drop' };
    const types = ['Ingress'];
    await cluster.apply(
      { apiVersion, kind: 'AgentConfiguration', metadata: { name: 'default' }, spec },
      atNode({ types, ingress: [{ action: 'Allow', source: { nets: ['192.0.2.1/32'] } }] }),
    );
    expect(await explained('shop/db host/n1 --port 30080')).toMatchObject({ verdict: 'allow' });
    expect(await explained('shop/db host/n2 --port 30080')).toMatchObject({ verdict: 'deny' });
  });

  it('judges what the node itself sends where it leaves, and where it comes back', async () => {
    await cluster.apply(only("app == 'web'"), atNode({ types: ['Egress'], egress: [{ action: 'Allow' }] }));
    const back = await explained('host/n2 host/n1 --port 30080');
    expect(back).toMatchObject({ verdict: 'deny', connections: [{ leaving: { verdict: 'allow' }, ingress: {} }] });
    expect(back.connections[0]?.notes.join()).not.toContain('a node always reaches its own pods');
    await cluster.apply(
      policyOf('db', { selector: "app == 'db'", ingress: [{ action: 'Allow' }] }),
      atNode({ types: ['Egress'], egress: [{ action: 'Deny', destination: { nets: ['192.0.2.1/32'] } }] }),
    );
    expect(await explained('host/n2 host/n1 --port 30080')).toMatchObject({
      verdict: 'deny',
      connections: [{ leaving: { hostEndpoint: 'n2', verdict: 'deny' }, ingress: { verdict: 'allow' } }],
    });
  });
});
