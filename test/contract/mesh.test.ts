// The commands for a service mesh, and a removal beside one, with a real API server.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse } from 'yaml';
import { type CtlRun, runCtl } from '../support/ctl-datastores.ts';
import { injectorWebhook } from '../support/injector-webhook.ts';
import { ENVOY_FILTERS } from '../support/mesh-hazards.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';

const CONFIG = `policy: enabled
templates:
  sidecar: |
    spec:
      containers:
      - name: istio-proxy
`;
const scope = new AsyncDisposableStack();
let server: OrchApiServer;
let kubeconfig: string;

const ctl = async (...argv: readonly string[]): Promise<CtlRun> => runCtl([...argv, '--kubeconfig', kubeconfig]);

function controlPlane(namespace: string): object {
  const labels = { app: 'istiod' };
  const containers = [{ name: 'discovery', image: 'docker.io/istio/pilot:1.28.1-distroless' }];
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'istiod', namespace, labels },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } },
  };
}

interface MeshFinding {
  readonly id: string;
  readonly objects: unknown;
}

async function meshFindings(): Promise<readonly MeshFinding[]> {
  const { stdout } = await ctl('doctor', '--cluster', '-o', 'json');
  const { findings } = JSON.parse(stdout) as { readonly findings: readonly MeshFinding[] };
  return findings.filter(({ id }) => id.startsWith('mesh/'));
}

beforeAll(async () => {
  server = scope.use(await startOrchApiServer());
  ({ kubeconfig } = server);
  for (const name of ['istio-system', 'shop']) await server.putNamespace(name);
  await server.apply([
    controlPlane('istio-system'),
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'istio-sidecar-injector', namespace: 'istio-system' },
      data: { config: CONFIG, values: '{}' },
    },
    injectorWebhook(),
    ENVOY_FILTERS,
  ]);
});
afterAll(async () => scope.disposeAsync());

it('what it prints, applied, is what it asks for', async () => {
  const before = await ctl('mesh', 'check');
  expect([before.status, before.stdout]).toEqual([
    1,
    expect.stringMatching(/mesh\/template-missing[^]*mesh\/filter-missing/),
  ]);
  const template = await ctl('mesh', 'template');
  const objects = await ctl('mesh', 'objects');
  await server.apply([parse(template.stdout), parse(objects.stdout)]);
  expect(await ctl('mesh', 'check')).toMatchObject({ status: 0, stderr: '' });
  // Of the mesh's own configuration it changes nothing else.
  expect((parse(template.stdout) as { readonly data: { readonly config: string } }).data.config).toContain(
    CONFIG.split('templates:\n')[1],
  );
});

it('names a template of another release', async () => {
  const { stdout } = await ctl('mesh', 'template');
  await server.apply([parse(stdout.replace(/(netplug-sidecar:)v[\d.]+/, '$1v3.20.0'))]);
  expect((await ctl('mesh', 'check')).stdout).toContain(
    'mesh/template-older: ConfigMap istio-system/istio-sidecar-injector has that of v3.20.0',
  );
});

it('refuses a mesh that it cannot find', async () => {
  const { status, stderr } = await ctl('mesh', 'check', '--mesh-namespace', 'shop');
  expect([status, stderr]).toEqual([expect.any(Number), expect.stringContaining('mesh/missing')]);
  expect(status).not.toBe(0);
});

it('the doctor examines the mesh that is to inject a sidecar before a pod has one', async () => {
  await server.putPod({ namespace: 'shop', name: 'bare', node: 'n', labels: { app: 'bare' } });
  await server.apply([
    {
      apiVersion: 'netplug.io/v3',
      kind: 'NetworkPolicy',
      metadata: { name: 'bare', namespace: 'shop' },
      spec: {
        selector: "app == 'bare'",
        types: ['Ingress'],
        ingress: [{ action: 'Allow', http: { methods: ['GET'] } }],
      },
    },
  ]);
  // Of a tenant, whom no webhook asks.
  await server.apply([controlPlane('shop')]);
  expect(await meshFindings()).toMatchObject([
    { id: 'mesh/template-older' },
    { id: 'mesh/pod-without-sidecar', objects: ['Pod shop/bare'] },
  ]);
});

it('a removal takes the filter away first, and names what the mesh still has', async () => {
  await server.putPod({ namespace: 'shop', name: 'web', node: 'n', labels: { 'netplug.io/sidecar': 'enabled' } });
  const { stdout } = await ctl('mesh', 'objects', '--mesh-namespace', 'shop');
  const own = parse(stdout) as { readonly metadata: object };
  await server.apply([{ ...own, metadata: { name: 'own', namespace: 'shop' } }]);
  const plan = await ctl('uninstall', 'cluster', '--dry-run');
  expect(plan.stdout).toMatch(/^cluster:[^\n]*\n1\. Mesh\n {3}delete EnvoyFilter istio-system\/netplug,/);
  expect(plan.stderr).toContain('left: EnvoyFilter shop/own asks netplug-sidecar');
  expect(plan.stderr).toContain('left: pods with netplug-sidecar in namespaces shop (1)');
});

it('the doctor finds the same where a pod has a sidecar, and which pod has none', async () => {
  const filter = (await ctl('mesh', 'objects')).stdout;
  await server.apply([parse(filter.replace('0.5s', '5s'))]);
  expect(await meshFindings()).toMatchObject([
    { id: 'mesh/template-older' },
    { id: 'mesh/filter-changed', objects: ['EnvoyFilter istio-system/netplug'] },
    { id: 'mesh/pod-without-sidecar', objects: ['Pod shop/bare'] },
  ]);
});
