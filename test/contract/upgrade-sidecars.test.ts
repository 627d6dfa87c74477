// The restart of workloads with an older sidecar: real API server, controllers of workloads and scheduler, an admission policy in place of
// the webhook of the mesh, and nodes without machines.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse } from 'yaml';
import { VERSION } from '../../src/base/version.ts';
import { type CtlRun, runCtl } from '../support/ctl-datastores.ts';
import { injectorWebhook } from '../support/injector-webhook.ts';
import type { Json } from '../support/node.ts';
import { type OperatorCluster, startOperatorCluster } from '../support/operator.ts';
import { until } from '../support/until.ts';

const OLD = 'v3.26.4';
const SIDECAR = 'netplug.io/netplug-sidecar';
const KINDS = ['Deployment', 'StatefulSet', 'DaemonSet'] as const;

const scope = new AsyncDisposableStack();
let cluster: OperatorCluster;

const ctl = async (...argv: readonly string[]): Promise<CtlRun> =>
  runCtl([...argv, '--kubeconfig', cluster.api.kubeconfig]);
const podsIn = async (namespace: string): Promise<readonly Json[]> =>
  (await cluster.api.call('GET', `/api/v1/namespaces/${namespace}/pods`)).items;
const imagesIn = (pods: readonly Json[]): readonly string[] =>
  pods.flatMap((pod) => (pod.spec.initContainers ?? []).map(({ image }: Json) => image));

/** Has every new pod of the namespace get the sidecar of that release, and waits until it does. */
async function inject(release: string): Promise<void> {
  const image = `${SIDECAR}:${release}`;
  const container = `Object.spec.initContainers{name: "netplug-sidecar", image: "${image}", restartPolicy: "Always"}`;
  const apiVersion = 'admissionregistration.k8s.io/v1';
  await cluster.api.apply([
    {
      apiVersion,
      kind: 'MutatingAdmissionPolicy',
      metadata: { name: 'mesh' },
      spec: {
        matchConstraints: {
          namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'shop' } },
          resourceRules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
        },
        reinvocationPolicy: 'Never',
        mutations: [
          {
            patchType: 'ApplyConfiguration',
            applyConfiguration: { expression: `Object{spec: Object.spec{initContainers: [${container}]}}` },
          },
        ],
      },
    },
    {
      apiVersion,
      kind: 'MutatingAdmissionPolicyBinding',
      metadata: { name: 'mesh' },
      spec: { policyName: 'mesh' },
    },
  ]);
  const body = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'probe' },
    spec: { containers: [{ name: 'a', image: 'none' }] },
  };
  const probe = async (): Promise<Json> =>
    cluster.api.call('POST', '/api/v1/namespaces/shop/pods?dryRun=All', { body });
  await until(async () => imagesIn([await probe()])[0] === image, 'new pods get the sidecar', 60_000, 100);
}

async function putAgent(release: string): Promise<void> {
  const labels = { 'app.kubernetes.io/part-of': 'netplug', 'app.kubernetes.io/name': 'netplug-node' };
  const spec = { nodeName: 'n1', containers: [{ name: 'agent', image: `netplug.io/netplug-node:${release}` }] };
  const metadata = { name: 'netplug-node-a', namespace: 'netplug-system', labels };
  await cluster.api.apply([{ apiVersion: 'v1', kind: 'Pod', metadata, spec }]);
}

function workload(kind: (typeof KINDS)[number]): object {
  const labels = { app: kind.toLowerCase() };
  const selector = { matchLabels: labels };
  // No controller takes the taint of a new node away.
  const spec = { containers: [{ name: 'web', image: 'none' }], tolerations: [{ operator: 'Exists' }] };
  const template = { metadata: { labels }, spec };
  const more = { Deployment: { replicas: 3 }, StatefulSet: { replicas: 2, serviceName: 'web' }, DaemonSet: {} }[kind];
  return {
    apiVersion: 'apps/v1',
    kind,
    metadata: { name: 'web', namespace: 'shop' },
    spec: { selector, template, ...more },
  };
}

beforeAll(async () => {
  cluster = scope.use(await startOperatorCluster(2));
  const { api } = cluster;
  await api.apply(
    ['istio-system', 'shop'].map((name) => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })),
  );
  await putAgent(OLD);
  const mesh = { app: 'istiod' };
  const pilot = { name: 'discovery', image: 'docker.io/istio/pilot:1.28.1' };
  const template = { metadata: { labels: mesh }, spec: { containers: [pilot] } };
  await inject(OLD);
  await api.apply([
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'istiod', namespace: 'istio-system', labels: mesh },
      spec: { selector: { matchLabels: mesh }, template },
    },
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'istio-sidecar-injector', namespace: 'istio-system' },
      data: { config: 'templates:\n  sidecar: |\n    spec: {}\n' },
    },
    injectorWebhook(),
    ...KINDS.map(workload),
  ]);
  const isReady = ({ status }: Json): boolean => status.phase === 'Running';
  await until(
    async () => {
      const pods = await podsIn('shop');
      return pods.length === 7 && pods.every(isReady);
    },
    'all pods run',
    60_000,
    200,
  );
});
afterAll(async () => scope.disposeAsync());

it('refuses until agents and template have the release, restarts workloads of every kind then, and has nothing left', async () => {
  const early = await ctl('upgrade', 'sidecars', '--yes');
  expect([early.status, early.stderr]).toEqual([69, expect.stringContaining(`${OLD} on node n1`)]);
  await putAgent(VERSION);
  const without = await ctl('upgrade', 'sidecars', '--dry-run');
  expect([without.status, without.stderr]).toEqual([69, expect.stringContaining('has the template "netplug"')]);
  for (const kind of KINDS)
    expect(without.stdout).toContain(`restart ${kind} shop/web, whose sidecar has release ${OLD}`);
  await cluster.api.apply([parse((await ctl('mesh', 'template')).stdout)]);

  // As an injector that has not read its template yet.
  const stale = await ctl('upgrade', 'sidecars', '--yes');
  expect([stale.status, stale.stderr]).toEqual([1, expect.stringContaining(`has netplug-sidecar ${OLD} still`)]);

  await inject(VERSION);
  const done = await ctl('upgrade', 'sidecars', '--namespace', 'shop', '--at-once', '2', '--yes');
  expect([done.status, done.stderr]).toEqual([0, expect.any(String)]);
  const pods = (await podsIn('shop')).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  expect(imagesIn(pods)).toEqual(Array.from({ length: 7 }, () => `${SIDECAR}:${VERSION}`));
  const found = await cluster.api.get('statefulset', 'web', '--namespace=shop');
  expect(Object.keys(found.spec.template.metadata.annotations)).toEqual(['kubectl.kubernetes.io/restartedAt']);
  expect(await ctl('upgrade', 'sidecars', '--yes')).toMatchObject({
    status: 0,
    stdout: expect.stringContaining('no workload has a netplug-sidecar older'),
  });
}, 240_000);
