// The datastore in a real API server, and what the orchestrator itself would do there.
import { KIND_NAMES, KINDS } from '../../src/model/kinds.ts';
import { runApiServer } from './api-server-process.ts';
import { borrowApiServer, mayBorrow } from './borrowed-api-server.ts';
import { here } from './here.ts';
import { type ApiServer, type ApiServerOptions, usableServer } from './kube.ts';
import { applyNetplug } from './netplug-manifests.ts';

/** A program of netplug, or the management tool with one of its roles. */
export type Caller = 'plugin' | 'agent' | 'controllers' | 'admin tool' | 'limited admin tool' | 'viewer tool';

/** An API server with what netplug keeps in it. */
export interface OrchApiServer extends ApiServer {
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
    annotations?: Readonly<Record<string, string>>;
    /** Beside `main`. */
    containers?: readonly object[];
  }): Promise<string>;
}

const GROUP = '/apis/netplug.io/v3';
/** The programs have accounts of the manifest, which bind their roles; people bring their own. */
const CALLERS: Readonly<Record<Caller, { readonly account: string; readonly roles?: readonly string[] }>> = {
  plugin: { account: 'netplug-cni' },
  agent: { account: 'netplug-agent' },
  controllers: { account: 'netplug-orch-controllers' },
  // Imports and removals of nodes write the status of pods and nodes, which no role for users allows.
  'admin tool': { account: 'admin-tool', roles: ['netplug-admin', 'netplug-installer', 'status-writer'] },
  'limited admin tool': { account: 'limited-admin-tool', roles: ['netplug-admin'] },
  'viewer tool': { account: 'viewer-tool', roles: ['netplug-viewer'] },
};

const STATUS_WRITER = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRole',
  metadata: { name: 'status-writer' },
  rules: [{ apiGroups: [''], resources: ['nodes/status'], verbs: ['patch'] }],
};

/** Returns an API server, started or borrowed as by `startApiServer`, with the manifests that netplug ships. */
export async function startOrchApiServer(options: ApiServerOptions = {}): Promise<OrchApiServer> {
  const isLent = mayBorrow(options);
  const process = isLent ? await borrowApiServer('netplug') : await runApiServer(options);
  const server = usableServer(process, options.at?.place ?? here);
  const { call } = server;
  try {
    if (!isLent) await applyNetplug(server);
    await server.apply([STATUS_WRITER]);
  } catch (cause) {
    await server[Symbol.asyncDispose]();
    throw cause;
  }
  const callerToken: OrchApiServer['callerToken'] = async (caller) => {
    const { account, roles = [] } = CALLERS[caller];
    const token = await server.tokenFor(`netplug-system/${account}`);
    for (const role of roles) {
      const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role };
      const subjects = [{ kind: 'ServiceAccount', namespace: 'netplug-system', name: account }];
      const body = { metadata: { name: `${account}-${role}` }, roleRef, subjects };
      await call('POST', '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', { body, besides: [409] });
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
  const putPod: OrchApiServer['putPod'] = async ({ namespace, name, node, labels, annotations, containers = [] }) => {
    await putNamespace(namespace);
    const spec = { nodeName: node, containers: [{ name: 'main', image: 'none' }, ...containers] };
    const body = { apiVersion: 'v1', kind: 'Pod', metadata: { name, labels, annotations }, spec };
    const pods = `/api/v1/namespaces/${namespace}/pods`;
    await call('POST', pods, { body, besides: [409] });
    return (await call('GET', `${pods}/${name}`)).metadata.uid;
  };
  return {
    ...server,
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
        call('DELETE', `${GROUP}/workloadendpoints`),
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
  };
}
