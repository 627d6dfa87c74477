// A datastore, an API server, and controllers that are started when a test wants them, on this host.
import { heldAddresses } from '../../src/model/ip-block.ts';
import { formatAddress } from '../../src/net/address.ts';
import { launchControllers, type Replica } from './controllers.ts';
import type { CtlDatastore, CtlDatastoreType } from './ctl-datastores.ts';
import { nodeOf } from './fixtures.ts';
import { type ApiServer, startApiServer } from './kube.ts';
import { until } from './until.ts';

const never = new AbortController().signal;

export interface ControllersScene {
  readonly datastore: CtlDatastore;
  readonly api: ApiServer;
  /** Adds a Node with labels and status. On etcd it has the record that its agent would make, with these labels. */
  addNode(
    name: string,
    parts?: {
      readonly labels?: Readonly<Record<string, string>>;
      readonly status?: object;
      readonly recordLabels?: Readonly<Record<string, string>>;
    },
  ): Promise<void>;
  /** Adds a pod to the default namespace, and returns its uid. */
  addPod(name: string, node: string): Promise<string>;
  /** Returns all addresses that are held, sorted. */
  readonly held: () => Promise<readonly string[]>;
  /** Starts a replica and does not wait. */
  launch(): Promise<Replica>;
  /** Starts a replica that leads. */
  launchLeader(): Promise<Replica>;
}

/** Starts datastore and API server; the scope ends them, and the replicas. */
export async function openControllersScene(
  { type, start }: CtlDatastoreType,
  scope: AsyncDisposableStack,
): Promise<ControllersScene> {
  const datastore = scope.use(await start());
  const api = datastore.server ?? scope.use(await startApiServer());
  const { store } = datastore;
  const launch = async (): Promise<Replica> => {
    const etcdUrl = type === 'kv' ? { etcdUrl: datastore.env['KV_ENDPOINTS'] ?? '' } : {};
    return scope.use(await launchControllers('one', { kubeconfig: api.kubeconfig, ...etcdUrl }));
  };
  return {
    datastore,
    api,
    addNode: async (name, { labels = {}, status, recordLabels } = {}) => {
      await api.apply([{ apiVersion: 'v1', kind: 'Node', metadata: { name, labels } }]);
      const patch = ['--subresource=status', '--type=merge', '-p', JSON.stringify({ status })];
      if (status !== undefined) await api.kubectl('patch', 'node', name, ...patch);
      if (type === 'kv') await store.createResource(nodeOf(name, recordLabels), never);
    },
    addPod: async (name, node) => {
      const spec = { nodeName: node, containers: [{ name: 'c', image: 'i' }], automountServiceAccountToken: false };
      await api.apply([{ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'default' }, spec }]);
      return (await api.kubectl('get', 'pod', name, '-n', 'default', '-o=jsonpath={.metadata.uid}')).trim();
    },
    held: async () => {
      const { blocks } = await store.listBlocks(never);
      return blocks.flatMap(({ value }) => heldAddresses(value).map(({ address }) => formatAddress(address))).sort();
    },
    launch,
    launchLeader: async () => {
      const replica = await launch();
      await replica.ready();
      await until(async () => replica.isLeading(), 'it leads');
      return replica;
    },
  };
}

/** Returns the status of a Node whose condition Ready is this. */
export function readiness(status: 'True' | 'Unknown'): object {
  return { conditions: [{ type: 'Ready', status }] };
}
