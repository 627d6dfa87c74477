// A real service mesh in a cluster: the control plane of Istio under its own rights, and a stock Envoy that Istio's own agent starts
// beside applications. Stock Envoy lacks extensions that only the mesh's own build has; the settings below leave them out.
import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { ROOT_NAMESPACE } from '../../src/mesh/envoy-filter.ts';
import { searchPath } from './box.ts';
import { NETPLUGCTL } from './built.ts';
import type { Cluster } from './cluster.ts';
import { ISTIO, program } from './components.ts';
import { makeImage } from './image.ts';
import { builtImage } from './images.ts';

const run = promisify(execFile);
const HUB = 'istio.test';
const DEMO = resolve(import.meta.dirname, '../../examples/mesh-demo.yaml');
/** Programs of Debian by which istio-init redirects: one file under the names that it looks for. */
const IPTABLES = ['iptables', 'iptables-save', 'iptables-restore', 'ip6tables', 'ip6tables-save', 'ip6tables-restore'];

/** Its images are on the node, and the proxy has its configuration within seconds on an idle machine. */
const READY_MS = 120_000;
/** Where istiod runs: the API server reaches its webhook through this node. */
const CONTROL_NODE = 'node-a';
const SERVICES = { '-4': '10.96.0.0/16', '-6': 'fd00:10:96::/112' };

/** Settings of the installation of the mesh; what they leave out is said beside them. */
const INSTALLATION = {
  apiVersion: 'install.istio.io/v1alpha1',
  kind: 'IstioOperator',
  spec: {
    profile: 'minimal',
    hub: HUB,
    tag: ISTIO,
    meshConfig: {
      // The extension istio.stats.
      defaultProviders: { metrics: [] },
      enablePrometheusMerge: false,
      defaultConfig: { concurrency: 1, proxyMetadata: { ISTIO_DUAL_STACK: 'true' } },
    },
    values: {
      pilot: {
        autoscaleEnabled: false,
        ipFamilyPolicy: 'RequireDualStack',
        nodeSelector: { 'kubernetes.io/hostname': CONTROL_NODE },
        resources: { requests: { cpu: '10m', memory: '128Mi' } },
        env: {
          ISTIO_DUAL_STACK: 'true',
          // The extensions istio.metadata_exchange, io.istio.http.peer_metadata and istio.alpn.
          PILOT_ENABLE_METADATA_EXCHANGE: 'false',
          PILOT_ENABLE_ALPN_FILTER: 'false',
        },
      },
      global: { proxy: { resources: { requests: { cpu: '10m', memory: '64Mi' } } } },
    },
  },
};

/** Installs the mesh with the template and the filter of netplug, and the demo of docs/mesh-demo.md; returns when all of it is ready. */
export async function startMesh(cluster: Cluster, onProgress: (text: string) => void = () => undefined): Promise<void> {
  onProgress('making the images of the mesh');
  await importImages(cluster);
  await leadToServices(cluster);
  onProgress('istioctl manifest generate | kubectl apply --filename=-');
  await install(cluster);
  for (const what of ['template', 'objects']) {
    onProgress(`netplugctl mesh ${what} | kubectl apply --filename=-`);
    await cluster.api.kubectlApply(await netplugctl(cluster, 'mesh', what));
  }
  onProgress('netplugctl mesh check');
  await netplugctl(cluster, 'mesh', 'check');
  onProgress('kubectl apply --filename=examples/mesh-demo.yaml');
  await cluster.api.kubectlApply(await readFile(DEMO, 'utf8'));
  for (const name of ['web', 'client', 'stranger'])
    await cluster.waitForPodsReady({ namespace: 'mesh-demo', selector: `app=${name}`, count: 1, deadlineMs: READY_MS });
}

/** Runs the tool as the administrator of the cluster. @returns what it prints @throws when it fails */
export async function netplugctl({ control, api }: Cluster, ...argv: readonly string[]): Promise<string> {
  const env = { PATH: searchPath(control.dir), KUBECONFIG: api.kubeconfig, HOME: api.dir };
  const { status, stdout, stderr } = await control.run([NETPLUGCTL, ...argv], { env });
  if (status !== 0) throw new Error(`netplugctl ${argv.join(' ')} ended with ${String(status)}:\n${stdout}${stderr}`);
  return stdout;
}

async function importImages({ nodes }: Cluster): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'netplug-mesh-'));
  try {
    const image = async (name: string, files: Readonly<Record<string, string>>, more = {}): Promise<string> => {
      const [first = ''] = Object.keys(files);
      return makeImage(join(folder, name), {
        names: [`${HUB}/${name}:${ISTIO}`],
        config: { Entrypoint: [first], Env: ['PATH=/usr/local/bin:/usr/sbin:/bin'], ...more },
        files,
      });
    };
    const multiple = '/usr/sbin/xtables-nft-multi';
    const archives = [
      await image('pilot', { '/usr/local/bin/pilot-discovery': program('pilot-discovery') }, { User: '1337:1337' }),
      await image('proxyv2', {
        '/usr/local/bin/pilot-agent': program('pilot-agent'),
        '/usr/local/bin/envoy': program('envoy'),
        '/var/lib/istio/envoy/envoy_bootstrap_tmpl.json': program('envoy-bootstrap'),
        ...Object.fromEntries(IPTABLES.map((name) => [`/usr/sbin/${name}`, multiple])),
        ...Object.fromEntries(globSync('/usr/lib/*/xtables/lib*.so').map((path) => [path, path])),
      }),
      await builtImage('netplug-sidecar'),
    ];
    for (const { containerd } of nodes) {
      for (const archive of archives) await containerd.importImage(archive);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Lets the API server call webhooks at the address of their Service: the machine of the control plane has no kube-proxy. */
async function leadToServices({ control, nodes }: Cluster): Promise<void> {
  const node = nodes.find(({ name }) => name === CONTROL_NODE);
  if (node === undefined) throw new Error(`there is no node ${CONTROL_NODE}`);
  const { ipv4, ipv6 } = node.addresses;
  await control.exec('ip', '-4', 'route', 'replace', SERVICES['-4'], 'via', ipv4);
  await control.exec('ip', '-6', 'route', 'replace', SERVICES['-6'], 'via', ipv6);
}

async function install(cluster: Cluster): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'netplug-istio-'));
  try {
    const file = join(folder, 'installation.json');
    await writeFile(file, JSON.stringify(INSTALLATION));
    const { stdout } = await run(program('istioctl'), ['manifest', 'generate', '--filename', file], {
      env: { HOME: folder, KUBECONFIG: '/dev/null' },
      maxBuffer: 64 * 1024 * 1024,
    });
    await cluster.api.kubectl('create', 'namespace', ROOT_NAMESPACE);
    await cluster.api.kubectlApply(stdout, '--server-side');
    await cluster.waitForPodsReady({
      namespace: ROOT_NAMESPACE,
      selector: 'app=istiod',
      count: 1,
      deadlineMs: READY_MS,
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
