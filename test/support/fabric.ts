// Nodes in two subnets with a router between them, an etcd of their own, and the world beyond the router.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FabricNode, type FabricPod, type Peer, startFabricNode } from './fabric-node.ts';
import { newSegments, type Segment } from './fabric-segments.ts';
import { removeAtEnd } from './janitor.ts';
import type { LanAddresses } from './lan.ts';
import { newNetns, type TestNetns } from './netns.ts';
import { type RunResult, startNode, type TestNode } from './node.ts';
import { NETPLUGCTL } from './built.ts';

export type { FabricNode, FabricPod, Peer } from './fabric-node.ts';

/** `await using` ends everything inside and removes it, and so does the end of the process. */
export interface Fabric extends AsyncDisposable {
  readonly router: TestNetns;
  /** A host that knows of no pod. */
  readonly world: Peer;
  /** Where the etcd of all nodes runs; its records are read here. */
  readonly store: TestNode;
  /** n1 and n2 are neighbours, n3 is beyond the router; those added later follow. */
  readonly nodes: readonly FabricNode[];
  node(name: string): FabricNode;
  /** One more, or one that was disposed of: it comes back where it was, with its state folder. */
  addNode(name: string, segment?: Segment): Promise<FabricNode>;
  /** Starts the agents of all nodes, and waits until they are ready. */
  startAgents(env?: Readonly<Record<string, string>>): Promise<void>;
  /** The end of what each agent has said. */
  logs(): string;
  /** Makes one pod on each node. */
  podOnEach(): Promise<FabricPod[]>;
  /** Runs netplugctl beside the etcd. */
  netplugctl(args: readonly string[], stdin?: string): Promise<RunResult>;
  /** Creates or changes resources; rejects when they are refused. */
  apply(...resources: readonly object[]): Promise<void>;
  /** Makes both pools, `v4` and `v6`, what is given. */
  setPools(spec: object): Promise<void>;
  /** Has the router send packets for the pod to its node, as a data centre does that routes pods. */
  routeTo(pod: FabricPod): Promise<void>;
}

export interface FabricOptions {
  /** Bytes, on every link; 1500 unless given. */
  readonly mtu?: number;
  /** By name, in the order of their numbers; n1 and n2 in `a` and n3 in `b` unless given. */
  readonly nodes?: Readonly<Record<string, Segment>>;
}

export const POOLS: LanAddresses = { ipv4: '10.65.0.0/16', ipv6: 'fd00:65::/64' };

const STORE = 2;
const WORLD = 10;
const FIRST_NODE = 11;
const SHOWN = 2000;
const NODES: Readonly<Record<string, Segment>> = { n1: 'a', n2: 'a', n3: 'b' };

/** Starts nodes without agents and pools. */
export async function startFabric({ mtu = 1500, nodes: wanted = NODES }: FabricOptions = {}): Promise<Fabric> {
  await using scope = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), 'netplug-fabric-'));
  removeAtEnd('folder', dir);
  scope.defer(async () => rm(dir, { recursive: true, force: true }));
  const segments = scope.use(await newSegments(mtu));
  const worldNetns = scope.use(await newNetns());
  const { addresses: worldAddresses } = await segments.plugIn(worldNetns, 'world', WORLD);
  const store = scope.use(await startNode({ name: 'store', etcd: 'every-address', mode: 'standalone' }));
  const { addresses: storeAddresses } = await segments.plugIn(store.host, 'a', STORE);

  const nodes = new Map<string, FabricNode>();
  const places = new Map<string, { readonly segment: Segment; readonly number: number }>();
  scope.defer(async () => {
    await Promise.all([...nodes.values()].map(async (node) => node[Symbol.asyncDispose]()));
  });
  const addNode: Fabric['addNode'] = async (name, segment = 'a') => {
    const place = places.get(name) ?? { segment, number: FIRST_NODE + places.size };
    places.set(name, place);
    const etcdUrl = `http://${storeAddresses.ipv4}:2379`;
    const node = await startFabricNode({ name, segments, ...place, etcdUrl, stateDir: join(dir, name) });
    nodes.set(name, node);
    return node;
  };
  for (const [name, segment] of Object.entries(wanted)) await addNode(name, segment);

  const node: Fabric['node'] = (name) => {
    const found = nodes.get(name);
    if (found === undefined) throw new Error(`there is no node ${name}`);
    return found;
  };
  const netplugctl: Fabric['netplugctl'] = async (args, stdin = '') =>
    store.run([NETPLUGCTL, ...args], { stdin, env: { DATASTORE_TYPE: 'kvv3', KV_ENDPOINTS: 'http://127.0.0.1:2379' } });
  const apply: Fabric['apply'] = async (...resources) => {
    const stdin = resources.map((resource) => JSON.stringify(resource)).join('\n---\n');
    const { status, stdout, stderr } = await netplugctl(['apply', '-f', '-'], stdin);
    if (status !== 0) throw new Error(`netplugctl apply ended with ${String(status)}:\n${stdout}${stderr}`);
  };
  const kept = scope.move();
  return {
    router: segments.router,
    world: { name: 'world', netns: worldNetns, addresses: worldAddresses },
    store,
    get nodes() {
      return [...nodes.values()];
    },
    node,
    addNode,
    startAgents: async (env = {}) => {
      await Promise.all([...nodes.values()].map(async (each) => each.startAgent(env)));
    },
    logs: () => [...nodes.values()].map((each) => `--- ${each.name}\n${each.agent().log().slice(-SHOWN)}`).join('\n'),
    podOnEach: async () => Promise.all([...nodes.values()].map(async (each) => each.pod())),
    netplugctl,
    apply,
    setPools: async (spec) =>
      apply(
        resourceOf('IPPool', 'v4', { cidr: POOLS.ipv4, ...spec }),
        resourceOf('IPPool', 'v6', { cidr: POOLS.ipv6, ...spec }),
      ),
    routeTo: async ({ addresses, node: name }) => {
      const { ipv4, ipv6 } = node(name).addresses;
      await segments.router.exec('ip', 'route', 'replace', addresses.ipv4, 'via', ipv4);
      await segments.router.exec('ip', '-6', 'route', 'replace', addresses.ipv6, 'via', ipv6);
    },
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

/** A resource as `apply` takes it. */
export function resourceOf(kind: string, name: string, spec: object): object {
  return { apiVersion: 'netplug.io/v3', kind, metadata: { name }, spec };
}
