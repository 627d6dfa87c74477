// The restart of workloads with an older sidecar on a real API server, beside a stand-in for controller, kubelet and webhook.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse } from 'yaml';
import { VERSION } from '../../src/base/version.ts';
import { OrchApi } from '../../src/kube/orch-api.ts';
import { kindCollection } from '../../src/kube/objects/reference.ts';
import { type CtlRun, runCtl } from '../support/ctl-datastores.ts';
import type { Json } from '../support/node.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';

const OLD = 'v3.26.4';
const READY = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] };
const SIDECAR = 'netplug.io/netplug-sidecar';
const { signal } = new AbortController();

const scope = new AsyncDisposableStack();
let server: OrchApiServer;
let api: OrchApi;

const sidecars = async (...argv: readonly string[]): Promise<CtlRun> =>
  runCtl(['upgrade', 'sidecars', ...argv, '--kubeconfig', server.kubeconfig]);

async function setStatus(kind: string, at: { namespace: string; name: string }, status: object): Promise<void> {
  const collection = kindCollection(kind, at.namespace);
  await api.patch({ collection, name: at.name, subresource: 'status' }, { kind: 'merge', body: { status } }, signal);
}

/** Makes the pods of the Deployment `web` as the template is now, with that sidecar, in place of those that are there. */
async function rollOut(sidecar: string): Promise<void> {
  const { metadata, spec } = (await server.get('deployment', 'web', '--namespace=shop')) as Json;
  const { generation } = metadata;
  const name = `web-${String(generation)}`;
  const owner = (kind: string, object: Json) => ({
    apiVersion: 'apps/v1',
    kind,
    name: object.metadata.name,
    uid: object.metadata.uid,
    controller: true,
  });
  const ownerReferences = [owner('Deployment', { metadata })];
  await server.apply([
    {
      apiVersion: 'apps/v1',
      kind: 'ReplicaSet',
      metadata: { name, namespace: 'shop', ownerReferences },
      spec: { replicas: 1, selector: spec.selector, template: spec.template },
    },
  ]);
  const set = (await server.get('replicaset', name, '--namespace=shop')) as Json;
  const before = await api.list(kindCollection('Pod', 'shop'), {}, signal);
  const containers = [{ name: 'netplug-sidecar', image: `${SIDECAR}:${sidecar}`, restartPolicy: 'Always' }];
  await server.apply([
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: 'shop', labels: { app: 'web' }, ownerReferences: [owner('ReplicaSet', set)] },
      spec: { nodeName: 'node-a', containers: [{ name: 'web', image: 'none' }], initContainers: containers },
    },
  ]);
  await setStatus('Pod', { namespace: 'shop', name }, READY);
  for (const pod of before)
    await api.delete(
      { collection: kindCollection('Pod', 'shop'), name: pod.metadata.name, preconditions: {}, graceSeconds: 0 },
      signal,
    );
  const counts = { replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1 };
  await setStatus('Deployment', { namespace: 'shop', name: 'web' }, { observedGeneration: generation, ...counts });
}

/** Rolls the Deployment out whenever its template has changed, until it is disposed. */
function startController(sidecar: string): AsyncDisposable {
  let isOver = false;
  const run = (async () => {
    while (!isOver) {
      const { metadata, status } = (await server.get('deployment', 'web', '--namespace=shop')) as Json;
      if (status.observedGeneration !== metadata.generation) await rollOut(sidecar);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  })();
  return {
    [Symbol.asyncDispose]: async () => {
      isOver = true;
      await run;
    },
  };
}

async function putAgent(release: string): Promise<void> {
  const labels = { 'app.kubernetes.io/part-of': 'netplug', 'app.kubernetes.io/name': 'netplug-node' };
  await server.apply([
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'netplug-node-a', namespace: 'netplug-system', labels },
      spec: { nodeName: 'node-a', containers: [{ name: 'agent', image: `netplug.io/netplug-node:${release}` }] },
    },
  ]);
  await setStatus('Pod', { namespace: 'netplug-system', name: 'netplug-node-a' }, READY);
}

beforeAll(async () => {
  server = scope.use(await startOrchApiServer());
  api = scope.use(new OrchApi({ from: 'file', path: server.kubeconfig }));
  for (const name of ['istio-system', 'shop']) await server.putNamespace(name);
  await server.putNode('node-a');
  await putAgent(OLD);
  const [mesh, web] = [{ app: 'istiod' }, { app: 'web' }];
  const pilot = { name: 'discovery', image: 'docker.io/istio/pilot:1.28.1' };
  const template = { metadata: { labels: web }, spec: { containers: [{ name: 'web', image: 'none' }] } };
  await server.apply([
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'istiod', namespace: 'istio-system', labels: mesh },
      spec: {
        selector: { matchLabels: mesh },
        template: { metadata: { labels: mesh }, spec: { containers: [pilot] } },
      },
    },
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'istio-sidecar-injector', namespace: 'istio-system' },
      data: { config: 'templates:\n  sidecar: |\n    spec: {}\n' },
    },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'web', namespace: 'shop' },
      spec: { replicas: 1, selector: { matchLabels: web }, template },
    },
  ]);
  await rollOut(OLD);
});
afterAll(async () => scope.disposeAsync());

it('refuses until agents and template have the release, restarts then, and has nothing left to do', async () => {
  expect(await sidecars('--yes')).toMatchObject({
    status: 69,
    stderr: expect.stringContaining(`${OLD} on node node-a`),
  });
  await putAgent(VERSION);
  const without = await sidecars('--dry-run');
  expect(without).toMatchObject({ status: 69, stderr: expect.stringContaining('has the template "netplug"') });
  expect(without.stdout).toContain(`restart Deployment shop/web, whose sidecar has release ${OLD}`);
  const printed = await runCtl(['mesh', 'template', '--kubeconfig', server.kubeconfig]);
  await server.apply([parse(printed.stdout)]);

  await using _controller = startController(VERSION);
  const done = await sidecars('--namespace', 'shop', '--yes');
  expect([done.status, done.stderr]).toEqual([0, expect.any(String)]);
  const { spec } = (await server.get('deployment', 'web', '--namespace=shop')) as Json;
  expect(Object.keys(spec.template.metadata.annotations)).toEqual(['kubectl.kubernetes.io/restartedAt']);
  const pods = (await api.list(kindCollection('Pod', 'shop'), {}, signal)) as readonly Json[];
  expect(pods.map((pod) => pod.spec.initContainers[0].image)).toEqual([`${SIDECAR}:${VERSION}`]);
  expect(await sidecars('--yes')).toMatchObject({ status: 0, stdout: expect.stringContaining('no workload has a') });
});
