// An API server with workloads whose pods have a sidecar. Each read of a workload lets its controller go on by one pod.
import { Readable } from 'node:stream';
import { NetplugError } from '../../src/base/errors.ts';
import { OrchApi } from '../../src/kube/orch-api.ts';
import type { Transport } from '../../src/kube/transport.ts';
import { injectionTemplate } from '../../src/mesh/injection-template.ts';
import type { NamedLease } from '../../src/runtime/leader-lease.ts';
import { injectorWebhook, INJECTORS_PATH } from './injector-webhook.ts';
import type { Json } from './node.ts';

export const IMAGE = 'netplug.io/netplug-sidecar';

export interface SidecarCluster {
  readonly api: () => OrchApi;
  /** Workloads in the order in which they were restarted, as `Deployment shop/web`. */
  readonly restarted: readonly string[];
  /** The most workloads that were rolling out at the same time. */
  readonly mostAtOnce: () => number;
  /** Image that the mesh injects from now on; undefined for no sidecar. */
  inject(image: string | undefined): void;
  /** What new pods of the workload do from now on instead of getting ready. */
  setFailing(workload: string, how: Failing | undefined): void;
}

/** `waver`: each fails for half a minute, one after the other before the last one is ready. */
export type Failing = 'crash' | 'hang' | 'waver';

export interface SidecarScene {
  /** By `KIND NAMESPACE/NAME`: the images of the sidecars of its pods, and fields of its spec. */
  readonly workloads: Readonly<
    Record<
      string,
      {
        readonly images: readonly string[];
        readonly spec?: object;
        /** Set when its pods fail from the beginning. */
        readonly isBroken?: true;
      }
    >
  >;
  /** Image in the injector's template; undefined where it has none of netplug. */
  readonly template?: string | undefined;
  /** Release of the agent of `node-1`. */
  readonly agent?: string;
  /** Names of nodes, each with its labels. The agent runs on those with `agent: yes`. */
  readonly nodes?: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

interface Workload {
  readonly key: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly spec: Json;
  generation: number;
  pods: Json[];
}

/** Leases cannot be written, which the tool says and goes on. */
export const NO_LEASE: NamedLease = {
  hold: async () => Promise.reject(new NetplugError('store/refused', 'Leases are refused')),
  release: async () => Promise.resolve(),
  findHolder: async () => Promise.resolve(undefined),
} as unknown as NamedLease;

export function sidecarCluster({ workloads, template, agent = 'v3.27.0', nodes = {} }: SidecarScene): SidecarCluster {
  let uids = 0;
  let injected = template;
  let most = 0;
  const restarted: string[] = [];
  const failing = new Map<string, Failing>();
  const podOf = (owner: Omit<Workload, 'pods' | 'spec'>, image: string | undefined): Json => {
    const { kind, namespace, name, generation } = owner;
    const controller = kind === 'Deployment' ? ['ReplicaSet', `${name}-${String(generation)}`] : [kind, name];
    uids += 1;
    return {
      metadata: {
        name: `${name}-${String(uids)}`,
        namespace,
        uid: String(uids),
        labels: { app: name },
        ownerReferences:
          kind === 'Pod'
            ? []
            : [
                {
                  apiVersion: kind === 'Job' ? 'batch/v1' : 'apps/v1',
                  kind: controller[0],
                  name: controller[1],
                  controller: true,
                },
              ],
      },
      generation,
      spec: { initContainers: image === undefined ? [] : [{ name: 'netplug-sidecar', image }] },
      status: readyStatus(),
    };
  };
  const all = Object.entries(workloads).map(([key, { images, spec, isBroken }]): Workload => {
    if (isBroken === true) failing.set(key, 'crash');
    const [kind = '', path = ''] = key.split(' ');
    const [namespace = '', name = ''] = path.split('/');
    const own = { key, kind, namespace, name, generation: 1 };
    return {
      ...own,
      spec: { replicas: images.length, selector: { matchLabels: { app: name } }, ...spec },
      pods: images.map((image) => ({
        ...podOf(own, image),
        ...(isBroken === true ? { status: crashingStatus() } : {}),
      })),
    };
  });
  const isRolling = ({ pods, generation }: Workload): boolean =>
    pods.some((pod) => pod.generation !== generation || pod.status.phase !== 'Running');
  const step = (workload: Workload): void => {
    most = Math.max(most, all.filter(isRolling).length);
    const { pods, generation, key } = workload;
    const unready = pods.find(({ status }) => status.phase !== 'Running');
    if (failing.get(key) === 'waver') {
      for (const pod of pods.filter((each) => each.looks !== undefined)) {
        pod.looks += 1;
        if (pod.looks === 30) Object.assign(pod, { looks: undefined, status: readyStatus() });
      }
      const next = pods.findIndex((pod) => pod.generation !== generation);
      if (next === -1 || pods.some(({ looks }) => looks < 15)) return;
      pods[next] = { ...podOf(workload, injected), looks: 0, status: crashingStatus() };
      return;
    }
    if (unready !== undefined) {
      const how = failing.get(key);
      if (how !== 'hang') unready.status = how === 'crash' ? crashingStatus() : readyStatus();
      return;
    }
    const old = pods.findIndex((pod) => pod.generation !== generation);
    if (old !== -1) pods[old] = { ...podOf(workload, injected), status: { phase: 'Pending' } };
  };
  const objectOf = ({ kind, namespace, name, spec, generation, pods }: Workload): Json => {
    const updated = pods.filter((pod) => pod.generation === generation).length;
    const available = pods.filter(({ status }) => status.phase === 'Running').length;
    return {
      apiVersion: 'apps/v1',
      kind,
      metadata: { name, namespace, generation },
      spec,
      status: {
        observedGeneration: generation,
        replicas: pods.length,
        updatedReplicas: updated,
        availableReplicas: available,
        desiredNumberScheduled: pods.length,
        updatedNumberScheduled: updated,
        numberAvailable: available,
      },
    };
  };
  const config = (): string => {
    const own = template === undefined ? '' : injectionTemplate({ mesh: '1.28.1', image: template, pullSecrets: [] });
    const lines = own.split('\n').map((line) => `    ${line}\n`);
    return `templates:\n  sidecar: |\n    spec: {}\n${own === '' ? '' : `  netplug: |\n${lines.join('')}`}`;
  };
  const agentPod = {
    metadata: {
      name: 'netplug-node-1',
      namespace: 'netplug-system',
      labels: { 'app.kubernetes.io/name': 'netplug-node' },
    },
    spec: { nodeName: 'node-1', containers: [{ name: 'agent', image: `netplug.io/netplug-node:${agent}` }] },
    status: readyStatus(),
  };
  const setOf = (namespace: string, name: string): Json => {
    const controller = { apiVersion: 'apps/v1', kind: 'Deployment', name: name.replace(/-\d+$/, ''), controller: true };
    return { metadata: { name, namespace, ownerReferences: [controller] } };
  };
  const listOf = (items: readonly Json[]): Json => ({ metadata: { resourceVersion: '1' }, items });
  const answer = (method: string, path: string): Json => {
    const { pathname, searchParams } = new URL(path, 'http://a');
    const selector = searchParams.get('labelSelector');
    const fixed: Readonly<Record<string, Json>> = {
      '/api/v1/namespaces/kube-system': { metadata: { name: 'kube-system', uid: 'cluster-uid' } },
      '/api/v1/nodes': listOf(Object.entries(nodes).map(([name, labels]) => ({ metadata: { name, labels } }))),
      '/apis/apps/v1/namespaces/netplug-system/daemonsets/netplug-node': {
        apiVersion: 'apps/v1',
        kind: 'DaemonSet',
        metadata: { name: 'netplug-node', namespace: 'netplug-system' },
        spec: { template: { spec: { nodeSelector: { agent: 'yes' } } } },
      },
      '/api/v1/namespaces/netplug-system/pods': listOf([agentPod]),
      '/apis/apps/v1/deployments': listOf([{ metadata: { name: 'istiod', namespace: 'istio-system' } }]),
      [INJECTORS_PATH]: listOf([injectorWebhook()]),
      '/api/v1/namespaces/istio-system/configmaps/istio-sidecar-injector': {
        metadata: { name: 'istio-sidecar-injector', namespace: 'istio-system' },
        data: { config: config() },
      },
    };
    if (fixed[pathname] !== undefined) return fixed[pathname];
    const pods = /^\/api\/v1\/(?:namespaces\/([^/]+)\/)?pods$/.exec(pathname);
    if (pods !== null)
      return listOf(
        all
          .filter(({ namespace }) => pods[1] === undefined || namespace === pods[1])
          .filter(({ name }) => selector === null || selector === `app=${name}`)
          .flatMap((workload) => workload.pods),
      );
    const sets = /^\/apis\/apps\/v1\/(?:namespaces\/([^/]+)\/)?replicasets$/.exec(pathname);
    if (sets !== null)
      return listOf(
        all
          .filter(({ kind, namespace }) => kind === 'Deployment' && (sets[1] ?? namespace) === namespace)
          .flatMap(({ namespace, name, generation }) =>
            Array.from({ length: generation }, (_, index) => setOf(namespace, `${name}-${String(index + 1)}`)),
          ),
      );
    const [, namespace, plural, name] =
      /^\/apis\/apps\/v1\/namespaces\/([^/]+)\/([^/]+)\/([^/]+)$/.exec(pathname) ?? [];
    if (plural === 'replicasets') return setOf(namespace ?? '', name ?? '');
    const found = all.find(
      (each) => `${each.kind.toLowerCase()}s` === plural && each.namespace === namespace && each.name === name,
    );
    if (found === undefined) return undefined;
    if (method === 'PATCH') {
      restarted.push(found.key);
      found.generation += 1;
    } else step(found);
    return objectOf(found);
  };
  const open: Transport['open'] = async (_, { method, path }) => {
    const value = answer(method, path);
    const body = value ?? { kind: 'Status', reason: 'NotFound', message: `${path} is missing` };
    const bytes = Readable.from([Buffer.from(JSON.stringify(body))]);
    return Promise.resolve({ status: value === undefined ? 404 : 200, headers: {}, body: bytes });
  };
  return {
    api: () =>
      new OrchApi({ from: 'api-root', url: 'http://127.0.0.1:1' }, { transport: { open, close: () => undefined } }),
    restarted,
    mostAtOnce: () => most,
    inject: (image) => {
      injected = image;
    },
    setFailing: (workload, how) => {
      if (how === undefined) failing.delete(workload);
      else failing.set(workload, how);
    },
  };
}

function readyStatus(): Json {
  return { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] };
}

function crashingStatus(): Json {
  const state = { waiting: { reason: 'CrashLoopBackOff', message: 'it ends at once' } };
  return { phase: 'Pending', containerStatuses: [{ name: 'web', ready: false, state }] };
}
