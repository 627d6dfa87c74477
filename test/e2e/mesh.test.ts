// The cluster of `make cluster MESH=on`, as its user meets it: Istio's control plane under its own rights, its agent with a real Envoy,
// kubelets, and netplug in the path. docs/mesh-demo.md walks through it.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ShownNetwork } from '../../src/model/shown-network.ts';
import { BUILT } from '../support/built.ts';
import { program } from '../support/components.ts';
import { runPage, steady, type Typed } from '../support/doc-session.ts';
import { here } from '../support/here.ts';
import { removeAtEnd } from '../support/janitor.ts';
import { newNetns, type TestNetns } from '../support/netns.ts';
import type { Json } from '../support/node.ts';
import { until } from '../support/until.ts';

const REPOSITORY = resolve(import.meta.dirname, '../..');
const SCRIPT = join(REPOSITORY, 'scripts/cluster.ts');
const PAGE = join(REPOSITORY, 'docs/mesh-demo.md');
const QUARTER_OF_AN_HOUR = 900_000;
const FILTERS = 'envoyfilters.networking.istio.io';
const HTTP_PORT = 8080;

let dir: string;
let machine: TestNetns;
let printed: string;
/** Assignments of the page so far: each command has a shell of its own. */
const assigned: string[] = [];

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'netplug-mesh-demo-'));
  removeAtEnd('folder', dir);
  machine = await newNetns();
  const { output, status } = await type(`${process.execPath} ${SCRIPT} up --mesh on`);
  if (status !== 0) throw new Error(output);
  printed = output;
}, QUARTER_OF_AN_HOUR);
afterAll(async () => {
  await type(`${process.execPath} ${SCRIPT} down`);
  await machine[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
}, QUARTER_OF_AN_HOUR);

/** Types a command where the user of the cluster is, at the root of the repository. */
async function type(command: string): Promise<Typed> {
  const state = join(dir, 'cluster');
  const env = {
    ...process.env,
    PATH: `${BUILT}:${dirname(program('kubectl'))}:${process.env['PATH'] ?? ''}`,
    NETPLUG_CLUSTER_DIR: state,
    KUBECONFIG: join(state, 'kubeconfig'),
    // This machine is no node.
    NETPLUG_SOCKET: join(state, 'no-agent'),
  };
  const script = `cd ${REPOSITORY}\n${assigned.join('\n')}\n${command}`;
  const inside = ['nsenter', `--net=${machine.path}`, 'bash', '-c', `exec 2>&1\n${script}`];
  const { stdout, status } = await here.run(inside, { env });
  if (/^\w+=/.test(command)) assigned.push(command);
  return { output: stdout, status: status ?? 1 };
}

async function typed(command: string): Promise<string> {
  const { output, status } = await type(command);
  if (status !== 0) throw new Error(`${command}: ${output}`);
  return output;
}

async function apply(...objects: readonly object[]): Promise<void> {
  const list = { apiVersion: 'v1', kind: 'List', items: objects };
  await typed(`kubectl apply --filename=- <<'END'\n${JSON.stringify(list)}\nEND`);
}

/** Returns the status of a request to the demo, `000` without an answer. */
async function ask(from: string, method = 'GET'): Promise<string> {
  const curl = `curl -s -o /dev/null -m 3 -w '%{http_code}' -X ${method} http://web:${String(HTTP_PORT)}/items/1`;
  return (await type(`kubectl -n mesh-demo exec deployment/${from} -- ${curl}`)).output.slice(0, 3);
}

/** What the agent of its node shows of the sidecar of the demo. */
async function guard(): Promise<NonNullable<ShownNetwork['sidecars']>[number]> {
  const [pod] = JSON.parse(await typed('kubectl -n mesh-demo get pods -l app=web -o json')).items as Json[];
  const agents = JSON.parse(
    await typed('kubectl -n netplug-system get pods -l app.kubernetes.io/name=netplug-node -o json'),
  );
  const agent = agents.items.find(({ spec }: Json) => spec.nodeName === pod.spec.nodeName);
  // Its status is 1 while the node has problems.
  const status = `exec ${String(agent.metadata.name)} -c agent -- netplugctl node status -o json`;
  const shown = await typed(`kubectl -n netplug-system ${status} 2>/dev/null || true`);
  const found = (JSON.parse(shown) as ShownNetwork).sidecars?.find(
    (each) => each.pod === `mesh-demo/${String(pod.metadata.name)}`,
  );
  if (found === undefined) throw new Error(`the agent shows no sidecar of the demo: ${shown}`);
  return found;
}

async function untilGuarded(isGuarded: boolean): Promise<void> {
  let last: unknown;
  await until(
    async () => {
      const found = await guard();
      last = found;
      return found.ports.includes(HTTP_PORT) === isGuarded;
    },
    () => `port ${String(HTTP_PORT)} is ${isGuarded ? '' : 'not '}guarded: ${JSON.stringify(last)}`,
    60_000,
    500,
  );
}

/** Names of pods and their addresses differ from run to run. */
function steadyOfCluster(output: string): string {
  const addresses = new Map<string, string>();
  return steady(output)
    .replaceAll(/\b(web|client|stranger)-[0-9a-f]{8,10}-[a-z0-9]{5}\b/g, '$1-6d9f7c8b54-x2k4p')
    .replaceAll(/\b10\.83\.\d+\.\d+\b|\bfd00:83:[0-9a-f:]+\b/g, (address) => {
      const known =
        addresses.get(address) ?? (address.includes(':') ? 'fd00:83::' : '10.83.0.') + String(addresses.size + 1);
      addresses.set(address, known);
      return known;
    });
}

it('says at its end what explains a refused request', async () => {
  const [, command = ''] = /explains a refused request:\n(.*)\n/.exec(printed) ?? [];
  const { output, status } = await type(command);
  expect([status, output]).toEqual([1, expect.stringContaining('NetworkPolicy mesh-demo/web')]);
});

it('is as docs/mesh-demo.md shows it', async () => {
  const shown = await runPage(await readFile(PAGE, 'utf8'), { type, steady: steadyOfCluster });
  await expect(shown).toMatchFileSnapshot(PAGE);
}, 300_000);

it('is sound to the doctor and before an upgrade, and has no older sidecar', async () => {
  const { output } = await type('netplugctl doctor');
  expect(output).toMatch(/^mesh {2}rules with http for \d+ pods?/m);
  expect(output).not.toContain('mesh/');
  expect((await type('netplugctl upgrade sidecars --dry-run')).output).toContain(
    'no workload has a netplug-sidecar older',
  );
}, 120_000);

describe('closes the port', () => {
  const other = {
    apiVersion: 'networking.istio.io/v1alpha3',
    kind: 'EnvoyFilter',
    metadata: { name: 'behind', namespace: 'mesh-demo' },
    spec: {
      // After ours.
      priority: 2_000_000,
      configPatches: [
        {
          applyTo: 'HTTP_FILTER',
          match: {
            context: 'SIDECAR_INBOUND',
            listener: {
              filterChain: {
                filter: {
                  name: 'envoy.filters.network.http_connection_manager',
                  subFilter: { name: 'envoy.filters.http.router' },
                },
              },
            },
          },
          patch: {
            operation: 'INSERT_BEFORE',
            value: {
              name: 'rewriting',
              typed_config: {
                '@type': 'type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua',
                default_source_code: {
                  inline_string: `function envoy_on_request(handle) handle:headers():replace(':path', '/etc/passwd') end`,
                },
              },
            },
          },
        },
      ],
    },
  };

  it.each<[string, string, () => Promise<unknown>, () => Promise<unknown>]>([
    [
      'the pod loses the label of the filter',
      'mesh  rules with http',
      async () => typed('kubectl -n mesh-demo label pods -l app=web netplug.io/sidecar-'),
      async () => typed('kubectl -n mesh-demo label pods -l app=web netplug.io/sidecar=enabled'),
    ],
    [
      'the filter is deleted',
      'mesh/filter-missing',
      async () => typed(`kubectl -n istio-system delete ${FILTERS} netplug`),
      async () => typed('netplugctl mesh objects | kubectl apply --filename=-'),
    ],
    [
      'another filter stands between the check and the application',
      'mesh  rules with http',
      async () => apply(other),
      async () => typed(`kubectl -n mesh-demo delete ${FILTERS} behind`),
    ],
  ])(
    'when %s, and opens it again; the doctor says %j',
    async (_, finding, spoil, mend) => {
      await spoil();
      await untilGuarded(false);
      expect((await type('netplugctl doctor')).output).toContain(finding);
      expect([await ask('client'), await ask('client', 'DELETE')]).toEqual(['000', '000']);
      await mend();
      await untilGuarded(true);
      expect([await ask('client'), await ask('client', 'DELETE')]).toEqual(['200', '403']);
    },
    180_000,
  );
});

it('knows clients by the certificate of the mesh, where only such may speak', async () => {
  const labels = { app: 'gateway', 'sidecar.istio.io/inject': 'true' };
  const container = { name: 'main', image: 'busybox:1.35', command: ['sleep', '100000'] };
  await apply(
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'gateway', namespace: 'mesh-demo' } },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'gateway', namespace: 'mesh-demo' },
      spec: {
        selector: { matchLabels: { app: 'gateway' } },
        template: { metadata: { labels }, spec: { serviceAccountName: 'gateway', containers: [container] } },
      },
    },
    {
      apiVersion: 'security.istio.io/v1',
      kind: 'PeerAuthentication',
      metadata: { name: 'strict', namespace: 'mesh-demo' },
      spec: { mtls: { mode: 'STRICT' } },
    },
    {
      apiVersion: 'netplug.io/v3',
      kind: 'NetworkPolicy',
      metadata: { name: 'gateway', namespace: 'mesh-demo' },
      spec: {
        selector: "app == 'web'",
        types: ['Ingress'],
        ingress: [
          {
            action: 'Allow',
            protocol: 'TCP',
            source: { serviceAccounts: { names: ['gateway'] } },
            destination: { ports: [HTTP_PORT] },
            http: { methods: ['GET', 'PUT'] },
          },
        ],
      },
    },
  );
  await typed('kubectl -n mesh-demo rollout status deployment/gateway --timeout=120s');
  await until(async () => (await ask('gateway')) === '200', 'the client with a certificate is served', 60_000, 500);
  expect(await ask('gateway', 'DELETE')).toBe('403');
  // Without the mesh: the proxy ends what is no TLS.
  await until(async () => (await ask('client')) === '000', 'plain requests are refused', 60_000, 500);
  await typed('kubectl -n mesh-demo delete peerauthentications.security.istio.io strict');
  await until(async () => (await ask('client')) === '200', 'plain requests are served again', 60_000, 500);
}, 300_000);

it('guards as a plain container as well, where the sidecars of a pod are not native', async () => {
  const annotations = { 'inject.istio.io/templates': 'sidecar,netplug', 'sidecar.istio.io/nativeSidecar': 'false' };
  const serve = ['httpd', '-f', '-p', '[::]:8080', '-h', '/etc'];
  await apply({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: 'plain',
      namespace: 'mesh-demo',
      labels: { app: 'web', 'sidecar.istio.io/inject': 'true' },
      annotations,
    },
    spec: { containers: [{ name: 'plain', image: 'busybox:1.35', command: serve }] },
  });
  await typed('kubectl -n mesh-demo wait --for=condition=Ready pod/plain --timeout=120s');
  const names = 'jsonpath={.spec.containers[*].name}';
  expect((await typed(`kubectl -n mesh-demo get pod plain -o ${names}`)).split(' ').toSorted()).toEqual([
    'istio-proxy',
    'netplug-sidecar',
    'plain',
  ]);
  const address = await typed('kubectl -n mesh-demo get pod plain -o jsonpath={.status.podIP}');
  const answers = async (method: string): Promise<string> => {
    const curl = `curl -s -o /dev/null -m 3 -w '%{http_code}' -X ${method} http://${address}:${String(HTTP_PORT)}/hostname`;
    return (await type(`kubectl -n mesh-demo exec deployment/client -- ${curl}`)).output.slice(0, 3);
  };
  await until(async () => (await answers('GET')) === '200', 'the pod is guarded', 60_000, 500);
  expect(await answers('DELETE')).toBe('403');
  await typed('kubectl -n mesh-demo delete pod plain');
}, 180_000);

it('has a filter that istioctl finds valid', async () => {
  const output = await typed(`netplugctl mesh objects | ${program('istioctl')} validate --filename=-`);
  // What it says of every EnvoyFilter, and nothing else.
  expect(output.match(/^\s*\*.*$/gm)).toEqual([expect.stringContaining('exposes internal implementation details')]);
});

it('adds nothing that Pod Security `restricted` refuses, and lets a Job end', async () => {
  const restricted = { 'pod-security.kubernetes.io/enforce': 'restricted' };
  const sound = {
    runAsNonRoot: true,
    runAsUser: 1000,
    allowPrivilegeEscalation: false,
    capabilities: { drop: ['ALL'] },
    seccompProfile: { type: 'RuntimeDefault' },
  };
  const metadata = {
    labels: { 'sidecar.istio.io/inject': 'true' },
    annotations: { 'inject.istio.io/templates': 'netplug' },
  };
  await apply(
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'strict', labels: restricted } },
    {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'once', namespace: 'strict' },
      spec: {
        template: {
          metadata,
          spec: {
            restartPolicy: 'Never',
            containers: [{ name: 'main', image: 'busybox:1.35', command: ['true'], securityContext: sound }],
          },
        },
      },
    },
  );
  await typed('kubectl -n strict wait --for=condition=Complete job/once --timeout=120s');
  expect(await typed('kubectl -n strict get pods -o jsonpath={.items[*].spec.initContainers[*].name}')).toBe(
    'netplug-sidecar',
  );
}, 180_000);

/** A pod as the mesh renders it, without what differs from run to run. */
async function rendered(pod: object): Promise<Json> {
  const made: Json = JSON.parse(
    await typed(`kubectl create --dry-run=server --output=json --filename=- <<'END'\n${JSON.stringify(pod)}\nEND`),
  );
  const { name, namespace, labels, annotations } = made.metadata;
  const text = JSON.stringify({ ...made, metadata: { name, namespace, labels, annotations }, status: undefined });
  return JSON.parse(text.replaceAll(/kube-api-access-[a-z0-9]{5}/g, 'kube-api-access-abcde'));
}

it('renders pods as they are recorded in test/golden/istio-1.31', async () => {
  const pod = (name: string, labels: object, annotations: Readonly<Record<string, string>>): object => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'mesh-demo', labels, annotations },
    spec: { containers: [{ name: 'web', image: 'busybox:1.35', ports: [{ containerPort: HTTP_PORT }] }] },
  });
  const inject = { 'sidecar.istio.io/inject': 'true' };
  const both = { 'inject.istio.io/templates': 'sidecar,netplug' };
  const pods = [
    pod('native', inject, both),
    pod('plain', inject, { ...both, 'sidecar.istio.io/nativeSidecar': 'false' }),
    pod('excluded', inject, {
      ...both,
      'traffic.sidecar.istio.io/excludeInboundPorts': '8081,9000',
      'traffic.sidecar.istio.io/includeInboundPorts': '8080,8081',
    }),
    pod('alone', inject, { 'inject.istio.io/templates': 'netplug' }),
    pod('mesh-only', inject, {}),
    pod('outside', { 'sidecar.istio.io/inject': 'false' }, both),
  ];
  const shown: Json[] = [];
  for (const each of pods) shown.push(await rendered(each));
  await expect(`${JSON.stringify(shown, undefined, 2)}\n`).toMatchFileSnapshot('../golden/istio-1.31/pods.json');
}, 120_000);

it('has older sidecars restarted once the mesh has the template of this release', async () => {
  const imagesOf = async (): Promise<readonly string[]> => {
    const { items } = JSON.parse(await typed('kubectl -n mesh-demo get pods -l app=web -o json'));
    // Those that are ending have what they had.
    const pods = items.filter(({ metadata }: Json) => metadata.deletionTimestamp === undefined);
    return pods.map(({ spec }: Json) => spec.initContainers.find(({ name }: Json) => name === 'netplug-sidecar').image);
  };
  const [current = ''] = await imagesOf();
  const older = current.replace(/:[^:]*$/, ':v3.26.4');
  const nodes = JSON.parse(await readFile(join(dir, 'cluster', 'nodes.json'), 'utf8')) as { socket: string }[];
  for (const { socket } of nodes)
    await typed(`${program('ctr')} --address ${socket} --namespace k8s.io images tag ${current} ${older}`);
  await typed(`netplugctl mesh template | sed 's#${current}#${older}#' | kubectl apply --filename=-`);
  // The control plane reads its configuration a moment later.
  await until(
    async () => {
      await typed('kubectl -n mesh-demo rollout restart deployment/web');
      await typed('kubectl -n mesh-demo rollout status deployment/web --timeout=120s');
      return (await imagesOf()).every((image) => image === older);
    },
    'new pods get the older sidecar',
    180_000,
    2000,
  );
  await untilGuarded(true);
  expect(await type('netplugctl upgrade sidecars --dry-run')).toMatchObject({
    status: expect.not.toBeOneOf([0]),
    output: expect.stringContaining('netplugctl mesh template'),
  });
  await typed('netplugctl mesh template | kubectl apply --filename=-');
  const { output, status } = await type('netplugctl upgrade sidecars --yes');
  expect([status, output]).toEqual([0, expect.stringContaining('Deployment mesh-demo/web')]);
  expect(await imagesOf()).toEqual([current]);
  await untilGuarded(true);
  expect([await ask('client'), await ask('client', 'DELETE')]).toEqual(['200', '403']);
  expect((await type('netplugctl upgrade sidecars --dry-run')).output).toContain('no workload has');
}, 300_000);

it('has its filter taken away first when netplug is removed, and names what remains', async () => {
  const removed = await typed('netplugctl uninstall cluster --yes');
  expect(removed).toMatch(/pods with netplug-sidecar in namespaces mesh-demo \(\d\)/);
  expect(removed.indexOf('delete EnvoyFilter')).toBeLessThan(removed.indexOf('delete DaemonSet'));
  expect(await type(`kubectl -n istio-system get ${FILTERS} netplug`)).toMatchObject({ status: 1 });
}, 300_000);
