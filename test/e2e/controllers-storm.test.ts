// Pods come and go while the controllers are killed at random: in the end, records and addresses are those of the pods.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { forEachLimit } from '../../src/base/for-each-limit.ts';
import { seededRandom } from '../../src/base/random.ts';
import { OrchApi } from '../../src/kube/orch-api.ts';
import { NODES, PODS } from '../../src/kube/paths.ts';
import { fromPod } from '../../src/model/from-kubernetes/pod.ts';
import { heldAddresses } from '../../src/model/ip-block.ts';
import { launchControllers, type Replica } from '../support/controllers.ts';
import { SIZES } from '../runs.ts';
import { CTL_DATASTORES, type CtlDatastore } from '../support/ctl-datastores.ts';
import { nodeOf, poolOf } from '../support/fixtures.ts';
import { holdAddress } from '../support/held-address.ts';
import { attachmentOf } from '../support/ipam-bench.ts';
import { type ApiServer, startApiServer } from '../support/kube.ts';
import { until } from '../support/until.ts';

const FOREVER = new AbortController().signal;
const { controllersStorm: STORM } = SIZES;
const NODE_NAMES = ['n1', 'n2', 'n3', 'n4'];
const IN = { ...PODS, namespace: 'default' };
const PARALLEL = 8;
const GRACE_S = 5;
/** After the storm: a new leader, and a grace period with its passes. */
const SETTLED_MS = 90_000;

describe.each(CTL_DATASTORES)('a storm of pods on $type', ({ type, start }) => {
  const scope = new AsyncDisposableStack();
  const random = seededRandom(17);
  let datastore: CtlDatastore;
  let server: ApiServer;
  let api: OrchApi;
  let replicas: Replica[] = [];

  beforeAll(async () => {
    datastore = scope.use(await start());
    server = datastore.server ?? scope.use(await startApiServer());
    api = scope.use(new OrchApi({ from: 'file', path: server.kubeconfig }, { limits: { connections: PARALLEL } }));
    await datastore.store.createResource(poolOf('pods', '10.64.0.0/20', { blockSize: 28 }), FOREVER);
    const node = { hostEndpoint: { autoCreate: 'Enabled' as const }, leakGracePeriod: `${String(GRACE_S)}s` };
    await datastore.store.createResource(
      {
        apiVersion: 'netplug.io/v3',
        kind: 'ControllersConfiguration',
        metadata: { name: 'default' },
        spec: { controllers: { node } },
      },
      FOREVER,
    );
    for (const name of NODE_NAMES) await addNode(name);
    replicas = [await launch(), await launch()];
  }, 300_000);
  afterAll(async () => {
    for (const replica of replicas) await replica[Symbol.asyncDispose]();
    await scope.disposeAsync();
  });

  async function launch(): Promise<Replica> {
    const etcdUrl = datastore.env['KV_ENDPOINTS'];
    const places = { kubeconfig: server.kubeconfig, ...(etcdUrl === undefined ? {} : { etcdUrl }) };
    return launchControllers(`replica-${String(random.int(1e6))}`, places);
  }

  async function addNode(name: string): Promise<void> {
    const status = { conditions: [{ type: 'Ready', status: 'Unknown' }] };
    // Of a node that is there, only its agent would release anything.
    const taint = { key: 'node.kubernetes.io/out-of-service', value: 'nodeshutdown', effect: 'NoExecute' };
    await api.create({ collection: NODES, object: { metadata: { name }, spec: { taints: [taint] } } }, FOREVER);
    const of = { collection: NODES, name, subresource: 'status' } as const;
    await api.patch(of, { kind: 'strategic', body: { status } }, FOREVER);
    if (type === 'kv') await datastore.store.createResource(nodeOf(name), FOREVER);
  }

  /** As kubelet and plugin do: the pod, its address and its endpoint, with labels of the moment. */
  async function addPod(name: string): Promise<string> {
    const nodeName = NODE_NAMES[random.int(NODE_NAMES.length)] ?? '';
    const object = {
      metadata: { name, labels: { app: 'a' } },
      spec: { nodeName, containers: [{ name: 'c', image: 'i' }], terminationGracePeriodSeconds: 0 },
    };
    const answer = await api.create({ collection: IN, object }, FOREVER);
    if (answer.outcome !== 'ok') throw new Error(`no pod: ${answer.message}`);
    const { uid = '' } = answer.value.metadata;
    const address = await holdAddress(datastore.store, {
      container: `c-${name}`,
      node: nodeName,
      pod: { namespace: 'default', name, uid },
    });
    const { value } = fromPod(answer.value);
    if (value !== undefined) {
      const { network, containerId: containerID } = attachmentOf(`c-${name}`);
      const endpoint = { ...value, spec: { ...value.spec, network, containerID } };
      await datastore.store.commit([{ kind: 'put-endpoint', endpoint }], FOREVER);
    }
    return address;
  }

  async function killAtRandom(until_: AbortSignal): Promise<number> {
    let killed = 0;
    while (!until_.aborted) {
      await new Promise((resolve) => setTimeout(resolve, 500 + random.int(2500)));
      const index = random.int(replicas.length);
      await replicas[index]?.stop('KILL');
      replicas[index] = await launch();
      killed += 1;
    }
    return killed;
  }

  it(`of ${String(STORM)} leaves records and addresses of exactly the living pods, whichever controllers are killed`, async () => {
    const over = new AbortController();
    const killing = killAtRandom(over.signal);
    const names = Array.from({ length: STORM }, (_, index) => `pod-${String(index)}`);
    const living = new Map<string, string>();
    await forEachLimit(names, PARALLEL, async (name) => {
      const address = await addPod(name);
      await api.patch(
        { collection: IN, name },
        { kind: 'merge', body: { metadata: { labels: { app: 'b' } } } },
        FOREVER,
      );
      // Every third is lost by its runtime: nothing releases its address.
      if (Number(name.slice('pod-'.length)) % 3 !== 0) living.set(name, address);
      else await api.delete({ collection: IN, name, preconditions: {} }, FOREVER);
    });
    await new Promise((resolve) => setTimeout(resolve, 2000));
    over.abort();
    expect(await killing).toBeGreaterThan(0);

    const held = async (): Promise<readonly string[]> =>
      (await datastore.store.listBlocks(FOREVER)).blocks.flatMap(({ value }) =>
        heldAddresses(value).map(({ allocation }) => allocation.pod ?? ''),
      );
    const log = (): string => replicas.map((replica) => replica.log()).join('\n');
    await until(
      async () => (await held()).length <= living.size,
      () => `all leaked addresses are released:\n${log()}`,
      SETTLED_MS,
      250,
    );
    expect((await held()).toSorted()).toEqual([...living.keys()].toSorted());
    const endpoints = async () => (await datastore.store.listEndpoints(undefined, FOREVER)).endpoints;
    const isDone = async (): Promise<boolean> => {
      const all = await endpoints();
      return all.length === living.size && all.every(({ value }) => value.metadata.labels?.['app'] === 'b');
    };
    await until(isDone, () => `endpoints are those of the pods:\n${log()}`, SETTLED_MS, 250);
    const { resources } = await datastore.store.listResources('HostEndpoint', FOREVER);
    expect(resources.map(({ metadata }) => metadata.name).toSorted()).toEqual(
      NODE_NAMES.map((name) => `${name}-auto-hep`),
    );
  }, 600_000);
});
