// The datastore in a real API server, and what the orchestrator itself would do there.
import { readFile } from 'node:fs/promises';
import { request } from 'node:https';
import { join } from 'node:path';
import { KIND_NAMES, KINDS } from '../../src/model/kinds.ts';
import { endpointName, type WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import type { Json } from './node.ts';
import { type ApiServer, type ApiServerOptions, startApiServer } from './kube.ts';

/** A program of netplug, or the management tool with one of its roles. */
export type Caller = 'plugin' | 'agent' | 'admin tool' | 'limited admin tool' | 'viewer tool';

/** Requests of an administrator, without kubectl's time to start. */
export interface OrchApiServer extends ApiServer {
  /** Rejects unless the answer is a success, or one of `besides`. */
  call(
    method: string,
    path: string,
    more?: { body?: unknown; type?: string; besides?: readonly number[] },
  ): Promise<Json>;
  /** The answer, whatever it says; with another token than the administrator's if one is given. */
  ask(
    method: string,
    path: string,
    more?: { body?: unknown; type?: string; token?: string },
  ): Promise<{ readonly status: number; readonly body: Json }>;
  /** The token of an account that has the roles of the manifest and no other rights. */
  callerToken(caller: Caller): Promise<string>;
  /** A kubeconfig with that token. */
  callerConfig(caller: Caller): Promise<string>;
  /** Removes every object that tests of the datastore make. */
  empty(): Promise<void>;
  putNamespace(name: string): Promise<void>;
  putNode(name: string, labels?: Readonly<Record<string, string>>): Promise<void>;
  labelNode(name: string, labels: Readonly<Record<string, string>>): Promise<void>;
  /** Makes a pod on a node without a kubelet, with its namespace; returns its uid. */
  putPod(pod: {
    namespace: string;
    name: string;
    node: string;
    labels?: Readonly<Record<string, string>>;
  }): Promise<string>;
  /** Makes the pod of an endpoint; returns the endpoint as the store tells it. */
  podOf(endpoint: WorkloadEndpoint): Promise<WorkloadEndpoint>;
}

const GROUP = '/apis/netplug.io/v3';
const MANIFESTS = join(import.meta.dirname, '../../manifests');
/** The programs have accounts of the manifest, which bind their roles; people bring their own. */
const CALLERS: Readonly<Record<Caller, { readonly account: string; readonly roles?: readonly string[] }>> = {
  plugin: { account: 'netplug-cni' },
  agent: { account: 'netplug-agent' },
  // Imports and removals of nodes write the status of pods and nodes, which no role for users allows.
  'admin tool': { account: 'admin-tool', roles: ['netplug-admin', 'netplug-installer', 'status-writer'] },
  'limited admin tool': { account: 'limited-admin-tool', roles: ['netplug-admin'] },
  'viewer tool': { account: 'viewer-tool', roles: ['netplug-viewer'] },
};

const STATUS_WRITER = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRole',
  metadata: { name: 'status-writer' },
  rules: [{ apiGroups: [''], resources: ['pods/status', 'nodes/status'], verbs: ['patch'] }],
};

/** Starts an API server and applies the manifests that netplug ships. */
export async function startOrchApiServer(options: ApiServerOptions = {}): Promise<OrchApiServer> {
  const server = await startApiServer(options);
  const ca = await readFile(server.caFile, 'utf8');
  const ask: OrchApiServer['ask'] = async (method, path, { body, type = 'application/json', token } = {}) =>
    new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${token ?? server.adminToken}`, 'content-type': type };
      const sent = request(new URL(path, server.url), { method, ca, headers }, (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (part: string) => (text += part));
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body: JSON.parse(text) }));
      });
      sent.on('error', reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  const call: OrchApiServer['call'] = async (method, path, { besides = [], ...more } = {}) => {
    const { status, body } = await ask(method, path, more);
    if (status < 300 || besides.includes(status)) return body;
    throw new Error(`${method} ${path}: ${String(status)} ${JSON.stringify(body)}`);
  };
  try {
    await server.apply([STATUS_WRITER]);
    for (const name of ['crds.yaml', 'rbac.yaml']) await server.apply(await readFile(join(MANIFESTS, name), 'utf8'));
    await server.kubectl('wait', '--for=condition=Established', '--timeout=30s', 'crd', '--all');
  } catch (cause) {
    await server[Symbol.asyncDispose]();
    throw cause;
  }
  const callerToken: OrchApiServer['callerToken'] = async (caller) => {
    const { account, roles = [] } = CALLERS[caller];
    const token = await server.tokenFor(`netplug-system/${account}`);
    const subject = `--serviceaccount=netplug-system:${account}`;
    for (const role of roles) {
      const binding = `${account}-${role}`;
      await server.kubectl('create', 'clusterrolebinding', binding, `--clusterrole=${role}`, subject).catch((cause) => {
        if (!String(cause).includes('already exists')) throw cause;
      });
    }
    return token;
  };
  const namespaces = new Set(['default']);
  const putNamespace: OrchApiServer['putNamespace'] = async (name) => {
    if (namespaces.has(name)) return;
    const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
    await call('POST', '/api/v1/namespaces', { body, besides: [409] });
    namespaces.add(name);
  };
  const putPod: OrchApiServer['putPod'] = async ({ namespace, name, node, labels }) => {
    await putNamespace(namespace);
    const spec = { nodeName: node, containers: [{ name: 'main', image: 'none' }] };
    const body = { apiVersion: 'v1', kind: 'Pod', metadata: { name, labels }, spec };
    const pods = `/api/v1/namespaces/${namespace}/pods`;
    await call('POST', pods, { body, besides: [409] });
    return (await call('GET', `${pods}/${name}`)).metadata.uid;
  };
  return {
    ...server,
    ask,
    call,
    callerToken,
    callerConfig: async (caller) => server.kubeconfigFor(await callerToken(caller)),
    putNamespace,
    putPod,
    empty: async () => {
      // Nodes are the orchestrator's own.
      const ours = KIND_NAMES.filter((kind) => kind !== 'Node').map((kind) => KINDS[kind]);
      await Promise.all([
        call('DELETE', '/api/v1/nodes'),
        call('DELETE', `${GROUP}/ipblocks`),
        call('DELETE', `${GROUP}/netplugnodes`),
        ...ours
          .filter(({ scope }) => scope === 'cluster')
          .map(async ({ plural }) => call('DELETE', `${GROUP}/${plural}`)),
        ...[...namespaces].flatMap((namespace) => [
          call('DELETE', `/api/v1/namespaces/${namespace}/pods?gracePeriodSeconds=0`),
          ...ours
            .filter(({ scope }) => scope === 'namespace')
            .map(async ({ plural }) => call('DELETE', `${GROUP}/namespaces/${namespace}/${plural}`)),
        ]),
      ]);
    },
    putNode: async (name, labels) => {
      await call('POST', '/api/v1/nodes', { body: { apiVersion: 'v1', kind: 'Node', metadata: { name, labels } } });
    },
    labelNode: async (name, labels) => {
      await call('PATCH', `/api/v1/nodes/${name}`, {
        body: { metadata: { labels } },
        type: 'application/merge-patch+json',
      });
    },
    podOf: async ({ metadata, spec, ...rest }) => {
      const { name, namespace = 'default' } = metadata;
      const podUID = await putPod({ namespace, name, node: spec.node });
      const orchestrator = 'orch';
      const labels = { 'netplug/namespace': namespace, 'netplug/orchestrator': orchestrator };
      const parts = { node: spec.node, orchestrator, workload: name, endpoint: spec.endpoint };
      return {
        ...rest,
        metadata: { name: endpointName(parts), namespace, labels },
        spec: { ...spec, orchestrator, pod: name, podUID },
      };
    },
  };
}
