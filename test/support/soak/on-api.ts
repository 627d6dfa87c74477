import { decodeBlock } from '../../../src/model/ip-block-codec.ts';
import { type ApiSocket, openApiSocket } from '../api-socket.ts';
import { startApiServer } from '../kube.ts';
import { logged } from '../logged.ts';
import { type Json, type TestNode, until } from '../node.ts';
import { AGENT_KUBECONFIG, giveAccess, KUBECONFIG } from '../orch-access.ts';
import type { Server, SoakAccess, StartDatastore } from './datastore.ts';
import { etcdOf } from './on-etcd.ts';

const ADDRESS = '172.31.0.2';
const PODS = '/api/v1/namespaces/default/pods';
const BLOCKS = '/apis/netplug.io/v3/ipblocks';
const ENDPOINTS = '/apis/netplug.io/v3/workloadendpoints';
const API_VERSION = 'netplug.io/v3';
const READY_MS = 120_000;

/** The records are in a real API server over the etcd of the first node; plugin and agents have the shipped roles. */
export const onApi: StartDatastore = async (nodes, pools) => {
  await using scope = new AsyncDisposableStack();
  const [first] = nodes as readonly [TestNode];
  const place = logged(first, first.dir, 'kube-apiserver');
  const at = { place, etcdUrl: 'http://127.0.0.1:2379', address: ADDRESS, port: 6443 };
  const api = scope.use(await startApiServer({ at }));
  await api.apply(nodes.map(({ name }) => ({ apiVersion: 'v1', kind: 'Node', metadata: { name } })));
  await giveAccess({
    api,
    apply: async (manifest) => api.apply(manifest),
    nodes: nodes.map((machine) => ({ name: machine.name, machine, agent: () => undefined })),
  });
  await api.kubectl('wait', '--for=condition=Established', '--timeout=30s', 'crd', '--all');
  await api.apply(
    Object.entries(pools).map(([name, [cidr, spec]]) => ({
      apiVersion: API_VERSION,
      kind: 'IPPool',
      metadata: { name },
      spec: { cidr, ...spec },
    })),
  );
  const socket = scope.use(await openApiSocket(first, api.kubeconfig));
  const server: Server = {
    name: 'api',
    pause: async () => api.pause(),
    resume: async () => api.resume(),
    kill: async () => api.stop(),
    start: async () => api.start(),
  };
  const connection = { DATASTORE_TYPE: 'orch', ORCHCONFIG: KUBECONFIG };
  const access: SoakAccess = {
    conf: {
      datastore_type: 'orch',
      kv_endpoints: undefined,
      policy: { type: 'orch' },
      orch: { orchconfig: KUBECONFIG },
    },
    env: {
      call: {},
      agent: { ...connection, NETPLUG_ORCHCONFIG: AGENT_KUBECONFIG },
      tool: { ...connection, ORCHCONFIG: api.kubeconfig },
    },
  };
  const kept = scope.move();
  return {
    servers: [server, await etcdOf(first)],
    access: nodes.map(() => access),
    settled: async () =>
      until(async () => (await socket.ask('GET', '/readyz')).status === 200, 'the API is ready', READY_MS, 100),
    ...podsOn(socket),
    blocks: async () =>
      (await list(socket, BLOCKS)).map(({ metadata, spec }) => {
        const decoded = decodeBlock(spec);
        if (!('block' in decoded)) throw new Error(`${metadata.name} cannot be read: ${decoded.problems.join('; ')}`);
        return decoded.block;
      }),
    endpoints: async () =>
      (await list(socket, ENDPOINTS)).map(({ spec }) => `pod ${String(spec.pod)}: ${JSON.stringify(spec)}`),
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
};

/** Pods without kubelets: they are there as soon as they were posted, and gone as soon as they were deleted. */
function podsOn(socket: ApiSocket): Pick<Awaited<ReturnType<StartDatastore>>, 'startPod' | 'forgetPod'> {
  const uids = new Map<string, string>();
  const forgetPod = async (pod: string): Promise<void> => {
    uids.delete(pod);
    await socket.ask('DELETE', `${PODS}/${pod}?gracePeriodSeconds=0`);
  };
  return {
    forgetPod,
    startPod: async (pod, node, which) => {
      if (which === 'new' || !uids.has(pod)) {
        await forgetPod(pod);
        const spec = { nodeName: node, containers: [{ name: 'main', image: 'none' }] };
        const body = { apiVersion: 'v1', kind: 'Pod', metadata: { name: pod }, spec };
        const { status, json } = await socket.ask('POST', PODS, body);
        if (status !== 201) return undefined;
        uids.set(pod, json.metadata.uid);
      }
      const uid = uids.get(pod)!;
      return `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=${pod};K8S_POD_UID=${uid}`;
    },
  };
}

async function list(socket: ApiSocket, path: string): Promise<readonly Json[]> {
  const { status, json } = await socket.ask('GET', path);
  if (status !== 200) throw new Error(`GET ${path}: ${String(status)} ${JSON.stringify(json)}`);
  return json.items;
}
