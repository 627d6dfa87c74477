// The shipped admission policies on a real API server: what users of the cluster may write about addresses of pods, by
// every way that leads to the annotations of a pod.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { program } from '../support/components.ts';
import { here } from '../support/here.ts';
import type { Json } from '../support/node.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { until } from '../support/until.ts';

const MANAGER = 'system:kube-controller-manager';
const POLICIES = join(import.meta.dirname, '../../manifests/admission.yaml');
const MERGE = 'application/merge-patch+json';
const NO_IPAM = { 'cni.netplug/ipAddrsNoIpam': '["10.99.0.7"]' };
const FLOATING = { 'cni.netplug/floatingIPs': '["10.83.7.7"]' };
/** How a tenant would move traffic to a pod, if notes were records. */
const NOTE = { 'cni.netplug/endpoint.eth0': '{"ipNATs":[]}' };
const EVERYTHING = ['get', 'list', 'create', 'update', 'patch', 'delete'];

type Annotations = Readonly<Record<string, string>>;

const scope = new AsyncDisposableStack();
let server: OrchApiServer;
/** May do everything with pods, by every subresource, and with namespaces; no rights of netplug. */
let tenant: string;

beforeAll(async () => {
  server = scope.use(await startOrchApiServer({ users: [{ name: MANAGER }] }));
  tenant = await server.tokenFor('people/tenant');
  const pods = ['pods', 'pods/status', 'pods/binding', 'pods/ephemeralcontainers', 'pods/resize', 'bindings'];
  const rules = [
    { apiGroups: [''], resources: [...pods, 'namespaces'], verbs: EVERYTHING },
    { apiGroups: ['apps'], resources: ['deployments'], verbs: EVERYTHING },
  ];
  const subject = { kind: 'ServiceAccount', namespace: 'people', name: 'tenant' };
  await server.apply([clusterRole('tenant', rules), clusterRoleBinding('tenant', subject)]);
  for (const name of ['shop', 'trusted']) await server.putNamespace(name);
  await server.kubectl('label', 'namespace', 'trusted', 'netplug/allow-address-annotations=');
  await server.apply(await readFile(POLICIES, 'utf8'));
  const probe = async (annotations: Annotations): Promise<boolean> =>
    (await as(tenant, 'POST', '/api/v1/namespaces/shop/pods?dryRun=All', podOf('probe', annotations))).status === 403;
  // A policy takes effect a moment after it was made, and so does a role.
  await until(async () => (await probe(FLOATING)) && (await probe(NOTE)), 'the policies take effect', 60_000, 100);
  await until(async () => !(await probe({})), 'the tenant may make pods', 60_000, 100);
  const manager = here.start([
    program('kube-controller-manager'),
    `--kubeconfig=${await server.kubeconfigFor(server.userToken(MANAGER))}`,
    '--use-service-account-credentials',
    `--service-account-private-key-file=${server.accountKeyFile}`,
    '--controllers=deployment-controller,replicaset-controller,cronjob-controller,job-controller',
    '--leader-elect=false',
    '--secure-port=0',
  ]);
  const running = await manager;
  scope.defer(async () => running.stop('KILL'));
  // It makes its first Job at the next full minute.
  const { spec } = podOf('x', {}, { restartPolicy: 'Never' });
  const jobTemplate = { spec: { template: { metadata: { annotations: NO_IPAM }, spec } } };
  await server.apply([
    {
      apiVersion: 'batch/v1',
      kind: 'CronJob',
      metadata: { name: 'tick', namespace: 'shop' },
      spec: { schedule: '* * * * *', jobTemplate },
    },
  ]);
});
afterAll(async () => scope.disposeAsync());

function clusterRole(name: string, rules: readonly object[]): object {
  return { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name }, rules };
}

function clusterRoleBinding(role: string, subject: object): object {
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role };
  const metadata = { name: role };
  return {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata,
    roleRef,
    subjects: [subject],
  };
}

function podOf(name: string, annotations: Annotations, spec: object = {}): Json {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, annotations },
    spec: { terminationGracePeriodSeconds: 0, containers: [{ name: 'main', image: 'none' }], ...spec },
  };
}

interface Said {
  readonly status: number;
  readonly body: Json;
}

/** The answer to a request with that token, whatever it says. */
async function as(token: string, method: string, path: string, body: unknown, type?: string): Promise<Said> {
  return server.ask(method, path, { body, token, ...(type === undefined ? {} : { type }) });
}

async function expectRefused(asked: Promise<Said>, words: string): Promise<void> {
  const { status, body } = await asked;
  expect(body.message).toContain(words);
  expect(status).toBe(403);
}

const podPath = (namespace: string, name: string): string => `/api/v1/namespaces/${namespace}/pods/${name}`;

async function annotationsOf(path: string): Promise<Json> {
  return (await server.call('GET', path)).metadata.annotations ?? {};
}

describe.each([
  ['addresses past the address manager', NO_IPAM, 'cni.netplug/ipAddrsNoIpam needs the label'],
  ['floating IPs', FLOATING, 'cni.netplug/floatingIPs needs the label'],
  ['notes of endpoints', NOTE, 'cni.netplug/endpoint.eth0 is kept by netplug'],
  ['noted addresses', { 'cni.netplug/podIPs': '10.0.0.1/32' }, 'cni.netplug/podIPs is kept by netplug'],
  ['noted containers', { 'cni.netplug/containerID': 'x' }, 'cni.netplug/containerID is kept by netplug'],
])('a tenant who writes %s into annotations', (_, annotations, words) => {
  const path = podPath('shop', 'p');
  beforeEach(async () => {
    await server.empty();
    await server.call('POST', '/api/v1/namespaces/shop/pods', { body: podOf('p', {}) });
  });

  it('is refused when the pod is created [ann-admission]', async () => {
    await expectRefused(as(tenant, 'POST', '/api/v1/namespaces/shop/pods', podOf('q', annotations)), words);
  });

  it.each(['', '/status'])(
    'is refused when the pod is changed through "pods%s", by a patch or as a whole',
    async (part) => {
      await expectRefused(as(tenant, 'PATCH', `${path}${part}`, { metadata: { annotations } }, MERGE), words);
      const pod = await server.call('GET', path);
      const changed = { ...pod, metadata: { ...pod.metadata, annotations } };
      await expectRefused(as(tenant, 'PUT', `${path}${part}`, changed), words);
      expect(await annotationsOf(path)).toEqual({});
    },
  );

  it.each(['/ephemeralcontainers', '/resize'])('changes nothing through "pods%s"', async (part) => {
    await as(tenant, 'PATCH', `${path}${part}`, { metadata: { annotations } }, MERGE);
    expect(await annotationsOf(path)).toEqual({});
  });

  it('is refused when the pod is bound to a node, either way', async () => {
    const target = { kind: 'Node', name: 'n1' };
    const binding = { apiVersion: 'v1', kind: 'Binding', metadata: { name: 'p', annotations }, target };
    await expectRefused(as(tenant, 'POST', `${path}/binding`, binding), words);
    await expectRefused(as(tenant, 'POST', '/api/v1/namespaces/shop/bindings', binding), words);
    // The scheduler's own have none.
    const plain = { ...binding, metadata: { name: 'p' } };
    expect(await as(tenant, 'POST', `${path}/binding`, plain)).toMatchObject({ status: 201 });
    expect(await annotationsOf(path)).toEqual({});
  });
});

describe('address annotations', () => {
  beforeEach(async () => server.empty());

  it('are refused on namespaces, and may be set on one with the label [ann-admission]', async () => {
    const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'mine', annotations: FLOATING } };
    await expectRefused(as(tenant, 'POST', '/api/v1/namespaces', namespace), 'needs the label');
    const patch = { metadata: { annotations: NO_IPAM } };
    await expectRefused(as(tenant, 'PATCH', '/api/v1/namespaces/shop', patch, MERGE), 'on namespace "shop"');
    expect(await as(tenant, 'PATCH', '/api/v1/namespaces/trusted', patch, MERGE)).toMatchObject({ status: 200 });
  });

  it('may be set by anyone in a namespace with the label, and stay when the label goes [ann-admission]', async () => {
    const pods = '/api/v1/namespaces/trusted/pods';
    const asking = podOf('p', { ...FLOATING, ...NO_IPAM });
    expect(await as(tenant, 'POST', pods, asking)).toMatchObject({ status: 201 });
    await server.kubectl('label', 'namespace', 'trusted', 'netplug/allow-address-annotations-');
    const refused = async (): Promise<boolean> =>
      (await as(tenant, 'POST', `${pods}?dryRun=All`, asking)).status === 403;
    await until(refused, 'the label is gone', 60_000, 100);
    const label = { metadata: { labels: { seen: 'yes' } } };
    expect(await as(tenant, 'PATCH', `${pods}/p`, label, MERGE)).toMatchObject({ status: 200 });
    const other = { metadata: { annotations: { 'cni.netplug/floatingIPs': '["10.83.7.8"]' } } };
    await expectRefused(as(tenant, 'PATCH', `${pods}/p`, other, MERGE), 'floatingIPs needs the label');
    await server.kubectl('label', 'namespace', 'trusted', 'netplug/allow-address-annotations=');
    await until(async () => !(await refused()), 'the label is back', 60_000, 100);
  });

  it('may be set by those who are bound to the role, in the namespace of the binding [ann-admission]', async () => {
    await server.putNamespace('bound');
    const role = '--clusterrole=netplug-use-floating-ips';
    await server.kubectl('create', 'rolebinding', 'fips', role, '--serviceaccount=people:tenant', '--namespace=bound');
    const make = async (namespace: string, annotations: Annotations): Promise<Said> =>
      as(tenant, 'POST', `/api/v1/namespaces/${namespace}/pods?dryRun=All`, podOf('p', annotations));
    await until(async () => (await make('bound', FLOATING)).status === 201, 'the binding takes effect', 60_000, 100);
    await expectRefused(make('bound', NO_IPAM), 'ipAddrsNoIpam needs the label');
    await expectRefused(make('shop', FLOATING), 'floatingIPs needs the label');
  });

  it('may be set for pods of a service account that is bound to the role, also by a Deployment', async () => {
    await server.putNamespace('web');
    await server.kubectl('create', 'serviceaccount', 'web', '--namespace=web');
    const binding = ['--clusterrole=netplug-use-floating-ips', '--serviceaccount=web:web', '--namespace=web'];
    await server.kubectl('create', 'rolebinding', 'web', ...binding);
    const deployment = (name: string, serviceAccountName: string): object => {
      const labels = { app: name };
      const { spec } = podOf(name, {}, { serviceAccountName });
      const template = { metadata: { labels, annotations: FLOATING }, spec };
      return {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        metadata: { name },
        spec: { selector: { matchLabels: labels }, template },
      };
    };
    for (const [name, account] of [
      ['good', 'web'],
      ['bad', 'default'],
    ] as const) {
      const made = await as(tenant, 'POST', '/apis/apps/v1/namespaces/web/deployments', deployment(name, account));
      expect(made).toMatchObject({ status: 201 });
    }
    const apps = async (): Promise<string[]> =>
      (await server.get('pods', '--namespace=web')).items.map(({ metadata }: Json) => metadata.labels.app);
    await until(async () => (await apps()).includes('good'), 'the pod of "good" is made', 60_000, 250);
    await expectSaid('web', 'ReplicaSet', 'floatingIPs needs the label');
    expect(await apps()).toEqual(['good']);
  });

  it('are refused for pods that a CronJob makes, which says so in an event', async () => {
    await expectSaid('shop', 'Job', 'ipAddrsNoIpam needs the label');
    expect((await server.get('pods', '--namespace=shop', '--selector=job-name')).items).toEqual([]);
  }, 180_000);
});

describe('notes on pods', () => {
  const path = podPath('shop', 'p');
  const noted = { metadata: { annotations: NOTE } };
  beforeEach(async () => {
    await server.empty();
    await server.call('POST', '/api/v1/namespaces/shop/pods', { body: podOf('p', {}) });
    await server.call('PATCH', path, { body: noted, type: MERGE });
  });

  it('are written by administrators of the cluster, and by no program of netplug', async () => {
    const change = { metadata: { annotations: { ...NOTE, 'cni.netplug/podIPs': '10.0.0.1' } } };
    for (const caller of ['plugin', 'agent', 'admin tool'] as const) {
      const token = await server.callerToken(caller);
      for (const part of ['', '/status'])
        expect(await as(token, 'PATCH', `${path}${part}`, change, MERGE)).toMatchObject({ status: 403 });
    }
    await server.call('PATCH', path, { body: change, type: MERGE });
    expect(await annotationsOf(path)).toEqual(change.metadata.annotations);
  });

  it('are not removed by a tenant, who may change the pod beside them', async () => {
    const removal = { metadata: { annotations: { 'cni.netplug/endpoint.eth0': null } } };
    await expectRefused(as(tenant, 'PATCH', path, removal, MERGE), 'cni.netplug/endpoint.eth0 is kept by netplug');
    const more = { metadata: { labels: { a: 'b' }, annotations: { mine: 'too' } } };
    expect(await as(tenant, 'PATCH', path, more, MERGE)).toMatchObject({ status: 200 });
    expect(await annotationsOf(path)).toEqual({ ...NOTE, mine: 'too' });
  });
});

describe('a user with the role netplug-admin', () => {
  it('changes pools, and neither the Installation nor the status of pods and nodes, which give access to nodes', async () => {
    const admin = await server.callerToken('limited admin tool');
    const [pools, installations] = ['/apis/netplug.io/v3/ippools', '/apis/netplug.io/v3/installations'];
    const pool = {
      apiVersion: 'netplug.io/v3',
      kind: 'IPPool',
      metadata: { name: 'p' },
      spec: { cidr: '10.1.0.0/16' },
    };
    await until(
      async () => (await as(admin, 'POST', pools, pool)).status === 201,
      'the role takes effect',
      60_000,
      100,
    );
    const installation = { apiVersion: 'netplug.io/v3', kind: 'Installation', metadata: { name: 'default' }, spec: {} };
    await server.call('POST', installations, { body: installation });
    await server.call('POST', '/api/v1/namespaces/shop/pods', { body: podOf('mine', {}), besides: [409] });
    await server.putNode('node-x');
    const registry = { spec: { registry: 'evil.example/x' } };
    const label = { metadata: { labels: { a: 'b' } } };
    for (const [path, change] of [
      [`${installations}/default`, registry],
      [`${podPath('shop', 'mine')}/status`, label],
      ['/api/v1/nodes/node-x/status', label],
    ] as const)
      expect(await as(admin, 'PATCH', path, change, MERGE)).toMatchObject({ status: 403 });
    expect(await as(admin, 'GET', `${installations}/default`, undefined)).toMatchObject({ status: 200 });
    await server.empty();
  });
});

/** Waits for an event that a controller has written about an object of that kind. */
async function expectSaid(namespace: string, kind: string, words: string): Promise<void> {
  const messages = async (): Promise<string[]> =>
    (await server.get('events', `--namespace=${namespace}`)).items
      .filter(({ involvedObject }: Json) => involvedObject.kind === kind)
      .map(({ message }: Json) => message);
  await until(
    async () => (await messages()).some((message) => message.includes(words)),
    `an event of a ${kind} says "${words}"`,
    120_000,
    500,
  );
}
