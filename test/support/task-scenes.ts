// What must have happened before the commands of docs/tasks.md make sense, by the names the page gives it.
import { takeSlot } from './block-edits.ts';
import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { VERSION } from '../../src/base/version.ts';
import type { Change } from '../../src/datastore/allocation-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { emptyBlock } from '../../src/model/ip-block.ts';
import { handleOf } from '../../src/model/names.ts';
import { endpointName, type WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { openBox, searchPath } from './box.ts';
import { program } from './components.ts';
import { launchControllers } from './controllers.ts';
import { startCtlDatastore } from './ctl-datastores.ts';
import type { Typed } from './doc-session.ts';
import { nodeName, nodeOf, poolOf } from './fixtures.ts';
import { here } from './here.ts';
import { removeAtEnd } from './janitor.ts';
import { startApiServer } from './kube.ts';
import { startNode, type TestNode } from './node.ts';
import { until } from './until.ts';
import { BUILT } from './built.ts';

const never = new AbortController().signal;
/** The profile of the network of the pods. */
const OPEN = {
  apiVersion: 'netplug.io/v3',
  kind: 'Profile',
  metadata: { name: 'k8s-pod-network' },
  spec: { ingress: [{ action: 'Allow' }], egress: [{ action: 'Allow' }] },
};
/** It lets an app in that no pod has. */
const STARVING = {
  apiVersion: 'netplug.io/v3',
  kind: 'NetworkPolicy',
  metadata: { name: 'db-clients', namespace: 'shop' },
  spec: {
    selector: 'all()',
    types: ['Ingress'],
    ingress: [
      { action: 'Allow', protocol: 'TCP', source: { selector: "app == 'api'" }, destination: { ports: [5432] } },
    ],
  },
};

/** Where commands are typed. */
interface Shell extends AsyncDisposable {
  type(command: string): Promise<Typed>;
}

export interface TaskScenes extends AsyncDisposable {
  /** Makes a scene of the page; one that begins a task takes a new shell. */
  set(name: string): Promise<void>;
  type(command: string): Promise<Typed>;
}

export function taskScenes(): TaskScenes {
  const shells = new AsyncDisposableStack();
  let node: NodeShell | undefined;
  let shell: Shell | undefined;
  const onNode = async (pool?: object): Promise<NodeShell> => {
    node = shells.use(await NodeShell.start(pool));
    shell = node;
    return node;
  };
  const scenes: Readonly<Record<string, () => Promise<void>>> = {
    'a node with two pods': async () => {
      const begun = await onNode();
      for (const pod of ['web', 'db']) await begun.connect(pod);
    },
    'a policy that starves a pod': async () => {
      const begun = await onNode();
      for (const pod of ['web', 'db']) await begun.connect(pod);
      for (const resource of [OPEN, STARVING]) await begun.apply(resource);
    },
    'a pod is lost': async () => node?.lose('db'),
    'the pods are made again': async () => {
      for (const pod of ['web', 'db']) await node?.connect(pod);
    },
    'a pool for another rack': async () => {
      const begun = await onNode({ nodeSelector: 'rack == "2"' });
      await begun.type(
        'echo \'{"apiVersion":"netplug.io/v3","kind":"Node","metadata":{"name":"node-a","labels":{"rack":"1"}}}\' | netplugctl apply -f -',
      );
    },
    'a cluster on etcd with controllers': async () => {
      shell = shells.use(await clusterWithControllers());
    },
    'a cluster on etcd, and an orchestrator': async () => {
      shell = shells.use(await twoDatastores());
    },
  };
  return {
    set: async (name) => {
      const scene = scenes[name];
      if (scene === undefined) throw new Error(`there is no scene "${name}"`);
      await scene();
    },
    type: async (command) => {
      if (shell === undefined) throw new Error('the page names no scene before its first command');
      return shell.type(command);
    },
    [Symbol.asyncDispose]: async () => shells.disposeAsync(),
  };
}

/** A node with an etcd, the configuration of its runtime, and the name its agent has registered. */
class NodeShell implements Shell {
  readonly #node: TestNode;

  private constructor(node: TestNode) {
    this.#node = node;
  }

  static async start(pool: object = {}): Promise<NodeShell> {
    const node = await startNode();
    await node.seedPool('blue', '10.64.0.0/16', pool);
    const { cniVersion, name, ...plugin } = node.netconf();
    await node.run(['sh', '-c', 'mkdir -p /etc/cni/net.d && cat >/etc/cni/net.d/10-netplug.conflist'], {
      stdin: JSON.stringify({ cniVersion, name, plugins: [plugin] }, undefined, 2),
    });
    await node.exec(
      'sh',
      '-c',
      'mkdir -p /var/lib/netplug && cd /var/lib/netplug && echo node-a >nodename && printf "%064d\\n" 0 >link-key',
    );
    return new NodeShell(node);
  }

  /** Takes the pod down, if it is there, and makes it again. */
  async connect(pod: string): Promise<void> {
    const netns = await this.#node.pod();
    const call = {
      containerId: pod,
      netns: netns.path,
      args: `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${pod};K8S_POD_UID=${pod}`,
      conf: this.#node.netconf(),
    };
    for (const command of ['DEL', 'ADD']) {
      const { status, stdout } = await this.#node.cni(command, call);
      if (status !== 0) throw new Error(stdout);
    }
    await this.#node.settled();
  }

  async apply(resource: object): Promise<void> {
    const { status, output } = await this.type(
      `echo '${JSON.stringify(resource).replaceAll("'", `'"'"'`)}' | netplugctl apply -f -`,
    );
    if (status !== 0) throw new Error(output);
  }

  /** Does what a loss of power does, after which the runtime has forgotten the pod: the pod is gone without a DEL. */
  async lose(pod: string): Promise<void> {
    const endpoint = (await this.#node.endpoints()).find(({ spec }) => spec.pod === pod);
    await this.#node.exec('ip', 'link', 'del', endpoint.spec.interfaceName);
  }

  async type(command: string): Promise<Typed> {
    const { stdout, status } = await this.#node.run(['bash', '-c', withBoth(command, this.#node.dir)], {
      env: {
        PATH: `${BUILT}:${searchPath(this.#node.dir)}`,
        NETPLUG_SOCKET: this.#node.socket,
        KV_ENDPOINTS: 'http://127.0.0.1:2379',
      },
    });
    return { output: stdout, status: status ?? -1 };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#node[Symbol.asyncDispose]();
  }
}

/**
 * An etcd with a pool, a labelled node and a pod that holds an address, and an API server that has nothing but node and
 * pod; a file for each. The machine, whose folders are its own, is installed with the etcd.
 */
async function twoDatastores(): Promise<Shell> {
  await using scope = new AsyncDisposableStack();
  const dir = mkdtempSync(join(tmpdir(), 'netplug-tasks-'));
  removeAtEnd('folder', dir);
  const kv = scope.use(await startCtlDatastore('kv'));
  const orch = scope.use(await startCtlDatastore('orch'));
  writeFileSync(join(dir, 'kv.yaml'), `kv_endpoints: ${kv.env['KV_ENDPOINTS'] ?? ''}\n`);
  writeFileSync(join(dir, 'orch.yaml'), 'datastore_type: orch\norchconfig: /etc/netplug/kubeconfig\n');
  await orch.server?.putNode('node-a');
  await seedWeb(kv.store, (await orch.server?.putPod({ namespace: 'shop', name: 'web', node: 'node-a' })) ?? '');
  const box = { dir: join(dir, 'box'), host: { path: '/proc/self/ns/net' }, ownRun: true, machine: undefined };
  const [enter, ...inside] = await openBox(box, scope);
  const type = async (command: string): Promise<Typed> => {
    const words = [...inside, 'bash', '-c', withBoth(command, dir)];
    const run = promisify(execFile)(enter, words, { env: { PATH: `${BUILT}:${searchPath(box.dir)}` } });
    const ended = run.then(({ stdout }) => ({ stdout, code: 0 }));
    const { stdout, code } = await ended.catch((cause: unknown) => cause as { stdout: string; code: number });
    return { output: stdout.replaceAll(dir, '.'), status: code };
  };
  const kubeconfig = orch.env['ORCHCONFIG'] ?? '';
  const installed = await type(
    `install -D ${kubeconfig} /etc/netplug/kubeconfig && netplugctl --config kv.yaml node install`,
  );
  if (installed.status !== 0) throw new Error(installed.output);
  const kept = scope.move();
  return { type, [Symbol.asyncDispose]: async () => kept.disposeAsync() };
}

/** An etcd with two nodes whose agents have published their releases, an API server with the same nodes, and controllers. */
async function clusterWithControllers(): Promise<Shell> {
  await using scope = new AsyncDisposableStack();
  const dir = mkdtempSync(join(tmpdir(), 'netplug-tasks-'));
  removeAtEnd('folder', dir);
  const kv = scope.use(await startCtlDatastore('kv'));
  const server = scope.use(await startApiServer());
  for (const [name, address] of Object.entries({ 'node-a': '192.0.2.7', 'node-b': '192.0.2.8' })) {
    await server.apply([{ apiVersion: 'v1', kind: 'Node', metadata: { name } }]);
    const spec = { addresses: [{ address, type: 'NodeIP' as const }], netplugVersion: VERSION };
    await kv.store.createResource({ ...nodeOf(name), spec }, never);
  }
  const etcdUrl = kv.env['KV_ENDPOINTS'] ?? '';
  const replica = scope.use(await launchControllers('one', { kubeconfig: server.kubeconfig, etcdUrl }));
  await until(async () => replica.isLeading(), 'the controllers lead');
  const kubectl = dirname(program('kubectl'));
  const type = async (command: string): Promise<Typed> => {
    const { stdout, status } = await here.run(['bash', '-c', withBoth(command, dir)], {
      env: {
        PATH: `${BUILT}:${kubectl}:${process.env['PATH'] ?? ''}`,
        HOME: dir,
        KUBECONFIG: server.kubeconfig,
        KV_ENDPOINTS: etcdUrl,
      },
    });
    return { output: stdout, status: status ?? -1 };
  };
  const kept = scope.move();
  return { type, [Symbol.asyncDispose]: async () => kept.disposeAsync() };
}

/** Pod shop/web of node-a, with an address. */
async function seedWeb(store: Store, podUID: string): Promise<void> {
  const node = nodeName('node-a');
  for (const resource of [poolOf('blue', '10.64.0.0/16'), nodeOf(node, { rack: '7' })])
    await store.createResource(resource, never);
  const [pool] = (await store.readNodeView(node, undefined, never)).pools;
  const attachment = { network: 'k8s-pod-network', containerId: 'web', ifName: 'eth0' };
  const block = takeSlot(emptyBlock(parseCidr('10.64.0.0/26'), node), 0, {
    ...attachment,
    id: 'allocation-1',
    handle: handleOf(attachment),
    node,
    namespace: 'shop',
    pod: 'web',
    podUid: podUID,
    at: '2026-01-02T03:04:05Z',
    chosenBy: 'node-selector',
    considered: ['blue: chosen'],
  });
  const of = { orchestrator: 'orch', node, endpoint: 'eth0' } as const;
  const endpoint: WorkloadEndpoint = {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name: endpointName({ ...of, workload: 'web' }), namespace: 'shop' },
    spec: {
      ...of,
      network: attachment.network,
      containerID: attachment.containerId,
      pod: 'web',
      podUID,
      interfaceName: 'npl7649dfc58c48',
      mac: '0a:00:00:00:00:01',
      ipNetworks: ['10.64.0.0/32'],
      profiles: ['k8s-pod-network'],
      ipam: 'netplug-ipam',
    },
  };
  const changes: Change[] = [
    { kind: 'create-block', block, pool },
    { kind: 'put-endpoint', endpoint },
  ];
  if ((await store.commit(changes, never)) !== 'committed') throw new Error('the pod could not be put into etcd');
}

/** What is typed, in the folder, with what it says on either stream. */
function withBoth(command: string, folder: string): string {
  return `cd ${folder} && { ${command}\n} 2>&1`;
}
