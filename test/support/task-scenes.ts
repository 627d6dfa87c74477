// What must have happened before the commands of docs/tasks.md make sense, by the names the page gives it.
import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { emptyBlock, takeSlot } from '../../src/model/ip-block.ts';
import { handleOf } from '../../src/model/names.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { PATH } from './box.ts';
import { CTL_DATASTORES, type CtlDatastoreType } from './ctl-datastores.ts';
import { nodeName, nodeOf, poolOf } from './fixtures.ts';
import { removeAtEnd } from './janitor.ts';
import { startNode, type TestNode } from './node.ts';

const PROGRAMS = resolve(import.meta.dirname, '../../dist/bin');
const never = new AbortController().signal;

/** Where commands are typed; what they print on both streams. */
interface Shell extends AsyncDisposable {
  type(command: string): Promise<string>;
}

export interface TaskScenes extends AsyncDisposable {
  /** Makes a scene of the page; one that begins a task takes a new shell. */
  set(name: string): Promise<void>;
  type(command: string): Promise<string>;
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
    'a cluster on etcd, and an orchestrator': async () => {
      shell = shells.use(await twoDatastores());
    },
  };
  return {
    set: async (name) => {
      const scene = scenes[name];
      if (scene === undefined) throw new Error(`nobody knows the scene "${name}"`);
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
    await node.exec('sh', '-c', 'mkdir -p /var/lib/netplug && echo node-a >/var/lib/netplug/nodename');
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

  /** What a machine does that loses its power, and a runtime that forgets: the pod is gone, and nobody said DEL. */
  async lose(pod: string): Promise<void> {
    const endpoint = (await this.#node.endpoints()).find(({ spec }) => spec.pod === pod);
    await this.#node.exec('ip', 'link', 'del', endpoint.spec.interfaceName);
  }

  async type(command: string): Promise<string> {
    const { stdout } = await this.#node.run(['bash', '-c', withBoth(command, this.#node.dir)], {
      env: { PATH: `${PROGRAMS}:${PATH}`, NETPLUG_SOCKET: this.#node.socket, KV_ENDPOINTS: 'http://127.0.0.1:2379' },
    });
    return stdout;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#node[Symbol.asyncDispose]();
  }
}

/** An etcd with a pool, a node and a held address, and an API server that has nothing but the node; a file for each. */
async function twoDatastores(): Promise<Shell> {
  await using scope = new AsyncDisposableStack();
  const dir = mkdtempSync(join(tmpdir(), 'netplug-tasks-'));
  removeAtEnd('folder', dir);
  const kv = scope.use(await started('kv'));
  const orch = scope.use(await started('orch'));
  writeFileSync(join(dir, 'kv.yaml'), `kv_endpoints: ${kv.env['KV_ENDPOINTS'] ?? ''}\n`);
  writeFileSync(join(dir, 'orch.yaml'), `datastore_type: orch\norchconfig: ${orch.env['ORCHCONFIG'] ?? ''}\n`);
  await orch.server?.putNode('node-a');
  for (const resource of [poolOf('blue', '10.64.0.0/16'), nodeOf('node-a')])
    await kv.store.createResource(resource, never);
  const [pool] = (await kv.store.readNodeView(nodeName('node-a'), undefined, never)).pools;
  const attachment = { network: 'k8s-pod-network', containerId: 'web', ifName: 'eth0' };
  const block = takeSlot(emptyBlock(parseCidr('10.64.0.0/26'), nodeName('node-a')), 0, {
    ...attachment,
    id: 'allocation-1',
    handle: handleOf(attachment),
    node: nodeName('node-a'),
    at: '2026-01-02T03:04:05Z',
    chosenBy: 'node-selector',
    considered: ['blue: chosen'],
  });
  if (pool !== undefined) await kv.store.commit([{ kind: 'create-block', block, pool }], never);
  const kept = scope.move();
  return {
    type: async (command) => {
      const run = promisify(execFile)('bash', ['-c', withBoth(command, dir)], { env: { PATH: `${PROGRAMS}:${PATH}` } });
      const { stdout } = await run.catch((cause: unknown) => cause as { readonly stdout: string });
      return stdout.replaceAll(dir, '.');
    },
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

async function started(type: CtlDatastoreType['type']): ReturnType<CtlDatastoreType['start']> {
  return CTL_DATASTORES.find((each) => each.type === type)!.start();
}

/** What is typed, in the folder, with what it says on either stream. */
function withBoth(command: string, folder: string): string {
  return `cd ${folder} && { ${command}\n} 2>&1`;
}
