import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type CtlCluster, ctlCluster, dnsCacheAnswers, podOf, policyOf } from '../../../../test/support/ctl-cluster.ts';
import type { PolicyPlan } from './explain-plan.ts';

let cluster: CtlCluster;
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-plan-'));
  cluster = await ctlCluster([
    podOf('web', 'n1', ['10.0.0.1/32', 'fd00::1/128']),
    podOf('db', 'n2', ['10.0.0.2/32', 'fd00::2/128']),
    podOf('legacy', 'n2', ['10.0.0.3/32']),
    podOf('done', 'n2', []),
  ]);
});

afterEach(async () => rm(folder, { recursive: true }));

async function fileOf(...documents: readonly object[]): Promise<string> {
  const file = join(folder, 'new.yaml');
  await writeFile(file, documents.map((each) => JSON.stringify(each)).join('\n---\n'));
  return file;
}

async function plan(documents: readonly object[], more = ''): Promise<PolicyPlan> {
  const { out, err } = await cluster.run(`policy plan -f ${await fileOf(...documents)} -o json${more}`);
  expect(err).toBe('');
  return JSON.parse(out) as PolicyPlan;
}

const KUBERNETES = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name: 'db', namespace: 'shop' },
  spec: {
    podSelector: { matchLabels: { app: 'db' } },
    ingress: [{ from: [{ podSelector: { matchLabels: { app: 'web' } } }], ports: [{ port: 5432 }] }],
  },
};

describe('netplugctl policy plan', () => {
  it('warns of pods that are left DNS pods, and not the cache of their node that answers before those', async () => {
    const dns = { selector: "k8s-app == 'kube-dns'", namespaceSelector: 'all()', ports: [53] };
    const allow = { action: 'Allow', protocol: 'UDP' };
    const only = (...egress: readonly object[]): object =>
      policyOf('dns', { selector: "app == 'web'", types: ['Egress'], egress });
    expect((await plan([only({ ...allow, destination: dns })])).warnings).toEqual([]);
    for (const other of [{ node: 'n2' }, { phase: 'Failed' }]) {
      cluster.api = dnsCacheAnswers(['169.254.20.10'], other);
      expect((await plan([only({ ...allow, destination: dns })])).warnings).toEqual([]);
    }
    // One that is not ready may be again.
    cluster.api = dnsCacheAnswers(['169.254.20.10'], { ready: 'False' });
    expect((await plan([only({ ...allow, destination: dns })])).warnings).toEqual([
      'cuts the DNS cache of their node off for shop/web: the cache answers before DNS pods do, so allow egress to 169.254.20.10/32, UDP and TCP port 53, as well',
    ]);
    const nets = ['169.254.20.10/32'];
    const toCache = ['UDP', 'TCP'].map((protocol) => ({ ...allow, protocol, destination: { nets, ports: [53] } }));
    expect((await plan([only({ ...allow, destination: dns }, ...toCache)])).warnings).toEqual([]);
    cluster.api = { '/api/v1/namespaces/kube-system/pods': 403 };
    const { warnings, notes } = await plan([only({ ...allow, destination: dns })]);
    expect([warnings, notes]).toEqual([[], [expect.stringContaining('whether nodes have a DNS cache is not known: ')]]);
  });

  it('warns of a host endpoint at none of the known addresses, which it does not compare', async () => {
    const meta = { apiVersion: 'netplug.io/v3', kind: 'HostEndpoint' };
    await cluster.apply(
      { ...meta, metadata: { name: 'n1-all', labels: { role: 'gateway' } }, spec: { node: 'n1', interfaceName: '*' } },
      { ...meta, metadata: { name: 'n2-all' }, spec: { node: 'n2', interfaceName: '*' } },
    );
    const close = {
      apiVersion: 'netplug.io/v3',
      kind: 'GlobalNetworkPolicy',
      metadata: { name: 'close' },
      spec: { selector: "role == 'gateway'", ingress: [{ action: 'Deny', protocol: 'TCP' }] },
    };
    expect(await plan([close])).toMatchObject({
      warnings: ['changes what applies to n1-all of node n1: what passes there is not compared, so read the rules'],
      cut: [],
    });
    expect(await plan([policyOf('open', { selector: "role == 'gateway'", ingress: [] })])).toMatchObject({
      warnings: [],
    });
  });

  it('lists what a policy of host endpoints cuts between nodes, pods and addresses', async () => {
    const meta = { apiVersion: 'netplug.io/v3' };
    const node = { ...meta, kind: 'Node', metadata: { name: 'n1' }, spec: { bgp: { ipv4Address: '192.0.2.1/24' } } };
    const host = {
      ...meta,
      kind: 'HostEndpoint',
      metadata: { name: 'n1-all', labels: { role: 'gateway' } },
      spec: { node: 'n1', interfaceName: '*', profiles: ['kns.shop'] },
    };
    const close = {
      ...meta,
      kind: 'GlobalNetworkPolicy',
      metadata: { name: 'close' },
      spec: { selector: "role == 'gateway'", ingress: [{ action: 'Deny', protocol: 'TCP' }, { action: 'Allow' }] },
    };
    await cluster.apply(node, host);
    const { cut, warnings } = await plan([close]);
    expect(warnings).toEqual([]);
    expect(
      cut.map(({ from, to, traffic, reasons }) => ({
        from: from.map(({ text }) => text),
        to: to.map(({ text }) => text),
        traffic,
        reasons,
      })),
    ).toEqual([
      {
        from: expect.arrayContaining(['other IPv4 addresses']),
        to: ['node n1'],
        // Failsafe ports stay open.
        traffic: expect.stringMatching(/^TCP 1-21, 23-/),
        reasons: [
          {
            direction: 'ingress',
            before: 'no policy decides, and profiles allow it',
            after: 'GlobalNetworkPolicy close, ingress[0]: Deny TCP',
          },
        ],
      },
    ]);
    // Without a profile that allows, the endpoint itself closes the node.
    const added = await plan([{ ...host, metadata: { name: 'n2-all' }, spec: { node: 'n1', interfaceName: '*' } }]);
    expect(added.cut).toEqual([]);
    expect((await plan([{ ...host, spec: { node: 'n1', interfaceName: '*' } }])).cut.length).toBeGreaterThan(0);
  });

  it('lists what a Kubernetes policy cuts, with what decides before and after', async () => {
    const { status, out, err } = await cluster.run(`policy plan -f ${await fileOf(KUBERNETES)}`);
    expect({ status, err }).toEqual({ status: 1, err: '' });
    expect(out).toBe(`Kubernetes NetworkPolicy shop/db: created

cut
  all traffic
    from shop/legacy, other IPv4 addresses, other IPv6 addresses
    to   shop/db
    ingress before: no policy decides, and profiles allow it
    ingress after:  no rule matches of Kubernetes NetworkPolicy shop/db: what policies that apply do not allow is denied
  all traffic except TCP 5432
    from shop/web
    to   shop/db
    ingress before: no policy decides, and profiles allow it
    ingress after:  no rule matches of Kubernetes NetworkPolicy shop/db: what policies that apply do not allow is denied
`);
  });

  it('lists what a deletion opens, and has status 0 when nothing is cut', async () => {
    const closed = policyOf('closed', { selector: "app == 'db'", types: ['Egress'] });
    await cluster.apply(closed);
    const { status, out } = await cluster.run(`policy plan -f ${await fileOf(closed)} --delete`);
    expect(status).toBe(0);
    expect(out).toContain('NetworkPolicy shop/closed: deleted\n\nopened\n  all traffic\n    from shop/db\n');
    expect(out).not.toContain('cut\n');
  });

  it('finds that the labels of a namespace and the networks of a set change what rules match', async () => {
    const team = {
      selector: "app == 'db'",
      ingress: [{ action: 'Allow', source: { namespaceSelector: "team == 'b'" } }],
    };
    await cluster.apply(
      policyOf('team', team),
      policyOf('out', {
        selector: "app == 'legacy'",
        types: ['Egress'],
        egress: [{ action: 'Allow', destination: { selector: "kind == 'bank'", namespaceSelector: 'global()' } }],
      }),
    );
    const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop', labels: { team: 'b' } } };
    const set = {
      apiVersion: 'netplug.io/v3',
      kind: 'GlobalNetworkSet',
      metadata: { name: 'bank', labels: { kind: 'bank' } },
      spec: { nets: ['203.0.113.0/24'] },
    };
    const { cut, opened, changes } = await plan([namespace, set]);
    expect(cut).toEqual([]);
    expect(changes.map(({ resource, action }) => `${resource} ${action}`)).toEqual([
      'Namespace shop change',
      'GlobalNetworkSet bank create',
    ]);
    expect(
      opened.map(({ from, to, traffic }) => [from.map(({ text }) => text), to.map(({ text }) => text), traffic]),
    ).toEqual([
      [['shop/web'], ['shop/db'], 'all traffic'],
      [['shop/legacy'], ['203.0.113.0/24'], 'all traffic'],
    ]);
  });

  it('splits ports where rules change, and names the IP family of a difference', async () => {
    const { cut } = await plan([
      policyOf('ports', {
        selector: "app == 'web'",
        order: 1,
        ingress: [
          { action: 'Deny', protocol: 'TCP', ipVersion: 6, destination: { ports: ['8000:8080', 'http', 22] } },
          { action: 'Pass' },
        ],
      }),
    ]);
    const between = cut.filter(({ from }) => from.some(({ text }) => text === 'shop/db'));
    expect(between).toMatchObject([{ traffic: 'TCP 22, 8000-8080', family: 6, to: [{ text: 'shop/web' }] }]);
  });

  it('says that nothing changes', async () => {
    const open = policyOf('open', { selector: 'all()', ingress: [{ action: 'Allow' }] });
    const { status, out } = await cluster.run(`policy plan -f ${await fileOf(open)}`);
    expect({ status, out }).toEqual({
      status: 0,
      out: 'NetworkPolicy shop/open: created\n\nNo connection between present ends is cut or opened.\n',
    });
    await cluster.apply(open);
    expect((await plan([open])).changes).toEqual([{ resource: 'NetworkPolicy shop/open', action: 'none' }]);
  });

  it('lists first which connections that were seen would be cut', async () => {
    const seen = { verdict: 'allowed', protocol: 6, firstSeen: 't1', lastSeen: 't2' };
    const [web, db, legacy] = [
      { address: '10.0.0.1', pod: 'shop/web' },
      { address: '10.0.0.2', pod: 'shop/db' },
      { address: '10.0.0.3', pod: 'shop/legacy' },
    ];
    const flows = [
      { ...seen, source: web, destination: db, port: 5432, count: 90 },
      { ...seen, source: web, destination: db, port: 22, count: 2 },
      { ...seen, source: legacy, destination: db, port: 5432, count: 7 },
      { ...seen, source: { ...legacy, pod: 'shop/earlier' }, destination: db, port: 5432, count: 8 },
    ];
    const file = join(folder, 'flows.json');
    await writeFile(
      file,
      JSON.stringify({ node: 'n1', recordedSince: 't0', flows, rules: [], lostReports: 0, forgotten: 0 }),
    );
    const { out, err } = await cluster.run(`policy plan -f ${await fileOf(KUBERNETES)} --flows ${file}`);
    expect(err).toBe('');
    expect(out).toContain(`
seen, and cut
  7x shop/legacy (10.0.0.3) -> shop/db (10.0.0.2), TCP port 5432, last at t2
  2x shop/web (10.0.0.1) -> shop/db (10.0.0.2), TCP port 22, last at t2

cut
`);
    const other = join(folder, 'new.yaml');
    expect((await cluster.run(`policy plan -f ${other} --flows ${other}`)).err).toContain('Cannot read flows from');
  });

  it.each<[string, object[], object[], { cut?: string; opened?: string }]>([
    ['narrows to requests', [{}], [{ http: {} }], { cut: 'all but some requests over TCP 8080' }],
    ['widens beyond requests', [{ http: {} }], [{}], { opened: 'all but some requests over TCP 8080' }],
    ['allows some requests', [], [{ http: {} }], { opened: 'some requests over TCP 8080' }],
    ['no longer allows requests', [{ http: {} }], [], { cut: 'some requests over TCP 8080' }],
    ['adds requests to what is allowed', [{}], [{ http: {} }, {}], {}],
  ])('says that a change %s', async (_, before, after, { cut, opened }) => {
    const rules = (each: readonly object[]): object =>
      policyOf('db', {
        selector: "app == 'db'",
        types: ['Ingress'],
        ingress: each.map((more) => ({ action: 'Allow', protocol: 'TCP', destination: { ports: [8080] }, ...more })),
      });
    await cluster.apply(rules(before));
    const planned = await plan([rules(after)]);
    expect(planned.cut.map(({ traffic }) => traffic)).toEqual(planned.cut.map(() => cut));
    expect(planned.opened.map(({ traffic }) => traffic)).toEqual(planned.opened.map(() => opened));
    expect([planned.cut.length > 0, planned.opened.length > 0]).toEqual([cut !== undefined, opened !== undefined]);
  });

  const changed = expect.stringContaining('which requests NetworkPolicy shop/db allows changes') as string;
  it.each<[string, object[], object[], string[]]>([
    ['methods', [{ methods: ['GET'] }], [{ methods: ['*'] }], [changed]],
    ['a rule more', [{ methods: ['GET'] }], [{ methods: ['GET'] }, { methods: ['PUT'] }], [changed]],
    ['nothing', [{ methods: ['GET'] }], [{ methods: ['GET'] }], []],
  ])('warns that requests change which connections do not show: %s', async (_, before, after, expected) => {
    const rules = (each: readonly object[]): object =>
      policyOf('db', {
        selector: "app == 'db'",
        ingress: each.map((http) => ({ action: 'Allow', protocol: 'TCP', http })),
      });
    await cluster.apply(rules(before));
    expect(await plan([rules(after)])).toMatchObject({ warnings: expected, cut: [], opened: [] });
  });

  it('lists connections that were seen and would be left some requests', async () => {
    const [source, destination] = [
      { address: '10.0.0.1', pod: 'shop/web' },
      { address: '10.0.0.2', pod: 'shop/db' },
    ];
    const seen = { verdict: 'allowed', protocol: 6, firstSeen: 't1', lastSeen: 't2', count: 1, source, destination };
    const flows = [
      { ...seen, port: 8080 },
      { ...seen, port: 9090 },
    ];
    const file = join(folder, 'flows.json');
    await writeFile(
      file,
      JSON.stringify({ node: 'n1', recordedSince: 't0', flows, rules: [], lostReports: 0, forgotten: 0 }),
    );
    const ingress = [
      { action: 'Allow', http: {} },
      { action: 'Allow', protocol: 'TCP', destination: { ports: [9090] } },
    ];
    const db = policyOf('db', { selector: "app == 'db'", types: ['Ingress'], ingress });
    const { cutFlows } = await plan([db], ` --flows ${file}`);
    expect(cutFlows?.map(({ traffic }) => traffic)).toEqual(['TCP port 8080 but for some requests']);
  });

  it('warns when DNS is cut off', async () => {
    const dns = podOf('dns', 'n1', ['10.0.0.9/32']);
    cluster = await ctlCluster([
      podOf('web', 'n1', ['10.0.0.1/32']),
      { ...dns, metadata: { ...dns.metadata, namespace: 'kube-system', labels: { 'k8s-app': 'kube-dns' } } },
    ]);
    const closed = await plan([policyOf('closed', { selector: 'all()', types: ['Egress'] })]);
    expect(closed.warnings).toEqual(['cuts DNS off for shop/web']);
    const withDns = policyOf('dns', {
      selector: 'all()',
      types: ['Egress'],
      egress: [
        { action: 'Allow', protocol: 'UDP', destination: { ports: [53] } },
        { action: 'Allow', protocol: 'TCP', destination: { ports: [53] } },
      ],
    });
    expect((await plan([withDns])).warnings).toEqual([]);
  });

  it('leaves out what has no meaning for policies, with a note', async () => {
    const pool = {
      apiVersion: 'netplug.io/v3',
      kind: 'IPPool',
      metadata: { name: 'p' },
      spec: { cidr: '10.0.0.0/16' },
    };
    const deployment = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'web' } };
    const { notes } = await plan([pool, deployment]);
    expect(notes).toEqual([
      expect.stringMatching(/new\.yaml:1:1: IPPool p does not change what pods reach$/),
      expect.stringMatching(/new\.yaml:3:1: Deployment of apps\/v1 is not considered$/),
    ]);
  });

  it.each([
    [
      'a rule without meaning',
      { ...KUBERNETES, spec: { podSelector: {}, ingress: [{ ports: [{ port: 80, endPort: 79 }] }] } },
    ],
    ['no name', { ...KUBERNETES, metadata: {} }],
    ['labels that are no texts', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop', labels: { a: 1 } } }],
    ['an unknown field', policyOf('odd', { selector: 'all()', ingres: [] })],
  ])('refuses %s', async (_, document) => {
    const { status, out, err } = await cluster.run(`policy plan -f ${await fileOf(document)}`);
    expect({ status, out }).toEqual({ status: 65, out: '' });
    expect(err).toMatch(/new\.yaml:1/);
  });
});
