// What the controllers cost on etcd in a cluster of 10 000 pods: from their start until everything is compared, at rest, and
// from a change to its copy.
import { setTimeout as sleep } from 'node:timers/promises';
import { launchControllers } from '../../../test/support/controllers.ts';
import { startEtcd } from '../../../test/support/etcd.ts';
import { here } from '../../../test/support/here.ts';
import { startApiServer } from '../../../test/support/kube.ts';
import { until } from '../../../test/support/until.ts';
import { forEachLimit } from '../../../src/base/for-each-limit.ts';
import type { Store } from '../../../src/datastore/store.ts';
import { openKvStore } from '../../../src/datastore/kv/kv-store.ts';
import { OrchApi } from '../../../src/kube/orch-api.ts';
import { NAMESPACES, PODS } from '../../../src/kube/paths.ts';
import { fromPod } from '../../../src/model/from-kubernetes/pod.ts';
import { cpuMsOf, memoryOf } from '../process-usage.ts';
import type { MeasureRow } from '../report.ts';

const PODS_IN_ALL = 10_000;
const NODES = 100;
const SPACES = 50;
const PARALLEL = 32;
/** The garbage of the start, and of the first comparison of everything, is collected in the first minutes. */
const SETTLE_MS = 360_000;
/** With one comparison of everything. */
const IDLE_MS = 300_000;
const CHANGES = 20;
const FOREVER = new AbortController().signal;

export const measureControllers: MeasureRow = async ({ candidates }) => {
  if (!candidates.includes('agent')) return {};
  await using scope = new AsyncDisposableStack();
  const etcd = scope.use(await startEtcd());
  const server = scope.use(await startApiServer());
  const api = scope.use(new OrchApi({ from: 'file', path: server.kubeconfig }, { limits: { connections: PARALLEL } }));
  const endpoints = { from: 'list', urls: [etcd.url] } as const;
  const store = scope.use(openKvStore({ endpoints, keyFile: undefined, certFile: undefined, caCertFile: undefined }));
  // Of the Lease that shows who leads.
  await api.create({ collection: NAMESPACES, object: { metadata: { name: 'netplug-system' } } }, FOREVER);
  await fill(api, store);
  const places = { kubeconfig: server.kubeconfig, etcdUrl: etcd.url };
  const first = scope.use(await launchControllers('first', places));
  await first.ready();
  await until(async () => first.isLeading(), 'the first replica leads');
  await first.stop();
  const startMs = performance.now();
  const replica = scope.use(await launchControllers('second', places));
  const isDone = async (): Promise<boolean> =>
    (await replica.metric('netplug_controllers_reconciles_total{controller="workloadendpoint",outcome="ok"}')) !==
    undefined;
  await until(isDone, 'all pods are compared', 120_000, 10);
  const startedMs = performance.now() - startMs;
  const reactMs = await reactions(api, store);
  await sleep(SETTLE_MS);
  const process = {
    run: here.run,
    exec: async (...command: string[]) => (await here.run(command)).stdout,
  };
  const before = await cpuMsOf(process, replica.pid);
  await sleep(IDLE_MS);
  const idleMs = (await cpuMsOf(process, replica.pid)) - before;
  const { rssMb } = await memoryOf(process, replica.pid);
  const at = `at ${String(PODS_IN_ALL)} pods`;
  return {
    figures: [
      { id: 'controllers.start', what: `start of the controllers ${at}`, value: startedMs / 1000, unit: 's' },
      { id: 'controllers.rss', what: `memory of the controllers ${at}`, value: rssMb, unit: 'MB' },
      {
        id: 'controllers.idle',
        what: `CPU of idle controllers ${at}`,
        value: (100 * idleMs) / IDLE_MS,
        unit: '% of a core',
      },
      { id: 'controllers.reaction', what: 'label of a pod to its endpoint, median', value: reactMs, unit: 'ms' },
    ],
  };
};

/** Pods with their endpoints as the plugin writes them. */
async function fill(api: OrchApi, store: Store): Promise<void> {
  await forEachLimit([...Array(SPACES).keys()], PARALLEL, async (index) => {
    await api.create({ collection: NAMESPACES, object: { metadata: { name: spaceOf(index) } } }, FOREVER);
  });
  await forEachLimit([...Array(PODS_IN_ALL).keys()], PARALLEL, async (index) => {
    const namespace = spaceOf(index);
    const object = {
      metadata: {
        name: `pod-${String(index)}`,
        labels: { app: `app-${String(index % 200)}`, 'pod-template-hash': 'abcdef1234' },
      },
      spec: {
        nodeName: `node-${String(index % NODES)}`,
        containers: [{ name: 'main', image: 'main', ports: [{ name: 'http', containerPort: 80 }] }],
      },
    };
    const answer = await api.create({ collection: { ...PODS, namespace }, object }, FOREVER);
    if (answer.outcome !== 'ok') throw new Error(`no pod: ${answer.message}`);
    const { value: endpoint } = fromPod(answer.value);
    if (endpoint !== undefined) await store.commit([{ kind: 'put-endpoint', endpoint }], FOREVER);
  });
}

async function reactions(api: OrchApi, store: Store): Promise<number> {
  const times: number[] = [];
  for (let index = 0; index < CHANGES; index += 1) {
    const node = `node-${String(index)}`;
    const startMs = performance.now();
    const collection = { ...PODS, namespace: spaceOf(index) };
    const body = { metadata: { labels: { changed: 'yes' } } };
    await api.patch({ collection, name: `pod-${String(index)}` }, { kind: 'merge', body }, FOREVER);
    const isThere = async (): Promise<boolean> => {
      const { endpoints } = await store.listEndpoints(node as Parameters<Store['listEndpoints']>[0], FOREVER);
      return endpoints.some(({ value }) => value.metadata.labels?.['changed'] === 'yes');
    };
    await until(isThere, 'the label is copied', 20_000, 1);
    times.push(performance.now() - startMs);
  }
  return times.sort((a, b) => a - b)[CHANGES / 2] ?? Number.NaN;
}

function spaceOf(index: number): string {
  return `space-${String(index % SPACES)}`;
}
