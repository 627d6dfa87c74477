import { counted } from '../../../base/counted.ts';
import { visibleText } from '../../../base/visible-text.ts';
import type { Check } from '../../../checks/check.ts';
import type { Store } from '../../../datastore/store.ts';
import { listServers } from '../../../install/cluster/server-leases.ts';
import { SYSTEM_NAMESPACE, systemObject, TYPHA_PORTS } from '../../../install/cluster/names.ts';
import { findObject } from '../../../kube/objects/apply.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { KUBERNETES_POLICIES, PODS } from '../../../kube/paths.ts';
import { podState } from '../../../kube/status/pod-state.ts';
import type { AgentConfiguration } from '../../../model/agent-configuration.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { TYPHA } from '../../../model/typha.ts';
import type { Sources } from './sources.ts';
import { topic } from './topic.ts';

/** Nodes from which the fan-out saves the API server more than it costs. */
const RECOMMENDED_NODES = 200;
/** Servers renew their Leases every ten seconds; clocks may differ. */
const OLD_MS = 120_000;

/** The servers of the fan-out, as the cluster shows them. */
export interface TyphaClusterFacts {
  /** Servers that should run; undefined without a Deployment of them. */
  readonly wanted: number | undefined;
  readonly servers: readonly { readonly name: string; readonly renewedMsAgo: number; readonly clients: number }[];
  /** Pods of servers that have failed, with their last output. */
  readonly failed: readonly { readonly node: string; readonly output: string }[];
  readonly nodes: number;
  /** Whether there are policies, which make agents follow all pods. */
  readonly hasPolicies: boolean;
  /** Lists of failsafe ports without that of servers, such as `AgentConfiguration default: failsafeInboundHostPorts`. */
  readonly closed: readonly string[];
}

export const TYPHA_CLUSTER_CHECKS: readonly Check<TyphaClusterFacts>[] = [
  {
    id: 'typha/too-few',
    severity: 'warning',
    expected: 'as many servers of netplug-typha as were asked for',
    remedy: 'Look why pods of netplug-typha do not run; each needs a node of its own, whose port 5473 is free',
    command: `kubectl -n ${SYSTEM_NAMESPACE} get pods -l app.kubernetes.io/name=${TYPHA} -o wide`,
    judge: ({ wanted, servers, failed }) => {
      const serving = servers.filter(({ renewedMsAgo }) => renewedMsAgo <= OLD_MS).length;
      // What is named by another check explains it.
      if (wanted === undefined || serving >= wanted || failed.length > 0 || serving < servers.length) return [];
      return [`${String(serving)} of ${counted(wanted, 'server')} serve`];
    },
  },
  {
    id: 'typha/not-current',
    severity: 'error',
    expected: 'servers of netplug-typha that renew their Leases: one that has lost the API server does not',
    remedy: 'See the log of the server, and whether its node reaches the API server',
    command: 'netplugctl typha status',
    judge: ({ servers }) =>
      servers
        .filter(({ renewedMsAgo }) => renewedMsAgo > OLD_MS)
        .map(
          ({ name, renewedMsAgo, clients }) =>
            `${visibleText(name)} has not renewed its Lease for ${counted(Math.round(renewedMsAgo / 1000), 'second')}, and said then that it serves ${counted(clients, 'agent')}`,
        ),
  },
  {
    id: 'typha/port-taken',
    severity: 'error',
    expected: 'nodes on which port 5473 is free for a server of netplug-typha',
    remedy: 'Free the port on that node, or keep servers off it with spec.typha.nodeSelector of the Installation',
    judge: ({ failed }) =>
      failed
        .filter(({ output }) => output.includes('EADDRINUSE'))
        .map(({ node, output }) => `a server cannot listen on node "${node}": ${visibleText(output)}`),
  },
  {
    id: 'typha/not-failsafe',
    severity: 'warning',
    expected:
      'port 5473 among the failsafe ports of host endpoints, where they were replaced: agents reach servers there',
    remedy: 'Add {protocol: TCP, port: 5473} to both lists, or allow it by policies of the host endpoints',
    judge: ({ closed }) => closed.map((list) => `${visibleText(list)} has no port 5473`),
  },
  {
    id: 'typha/recommended',
    severity: 'note',
    expected: `the fan-out from ${String(RECOMMENDED_NODES)} nodes with policies, or agents that load the API servers with every change of a pod`,
    remedy: 'Switch the fan-out on (docs/netplug-typha.md)',
    command: 'netplugctl cluster typha on --dry-run',
    judge: ({ wanted, nodes, hasPolicies }) =>
      wanted === undefined && hasPolicies && nodes >= RECOMMENDED_NODES
        ? [`each of ${counted(nodes, 'node')} follows all pods at the API server`]
        : [],
  },
];

export const TYPHA_CLUSTER = topic({
  area: 'typha',
  scope: 'cluster',
  needsRecords: true,
  gather: gatherTyphaCluster,
  measure: ({ wanted, servers }) => (wanted === undefined ? [] : [counted(servers.length, 'server')]),
  checks: TYPHA_CLUSTER_CHECKS,
});

const NOTHING: TyphaClusterFacts = {
  wanted: undefined,
  servers: [],
  failed: [],
  nodes: 0,
  hasPolicies: false,
  closed: [],
};

async function gatherTyphaCluster(sources: Sources, signal: AbortSignal): Promise<TyphaClusterFacts> {
  const { datastore } = await sources.connection();
  if (datastore.type !== 'orch') return NOTHING;
  const { ports } = sources.context;
  const store = await sources.store();
  const { resources: nodes } = await store.listResources('Node', signal);
  await using api = ports.openApi(datastore.orch);
  const deployment = await findObject(api, systemObject('Deployment', TYPHA), signal);
  if (deployment === undefined) {
    const isLarge = nodes.length >= RECOMMENDED_NODES;
    return { ...NOTHING, nodes: nodes.length, hasPolicies: isLarge && (await hasPolicies(store, api, signal)) };
  }
  const selected = { labelSelector: `app.kubernetes.io/name=${TYPHA}` };
  const [servers, pods, { resources: configurations }] = await Promise.all([
    listServers(api, signal),
    api.list({ ...PODS, namespace: SYSTEM_NAMESPACE }, selected, signal),
    store.listResources('AgentConfiguration', signal),
  ]);
  const nowMs = ports.clock.now();
  return {
    wanted: replicasOf(deployment['spec']),
    servers: servers.map(({ entry, renewedMs, clients }) => ({
      name: entry.name,
      renewedMsAgo: nowMs - renewedMs,
      clients,
    })),
    // What a server that is ready now has met before is past.
    failed: pods
      .map(podState)
      .flatMap(({ node, phase, output }) => (phase === 'ready' || output === undefined ? [] : [{ node, output }])),
    nodes: nodes.length,
    hasPolicies: false,
    closed: configurations.flatMap(listsWithoutServers),
  };
}

async function hasPolicies(store: Store, api: OrchApi, signal: AbortSignal): Promise<boolean> {
  const [own, global, kubernetes] = await Promise.all([
    store.listResources('NetworkPolicy', signal),
    store.listResources('GlobalNetworkPolicy', signal),
    api.list(KUBERNETES_POLICIES, { only: 'names' }, signal),
  ]);
  return [own.resources, global.resources, kubernetes].some(({ length }) => length > 0);
}

function listsWithoutServers({ metadata, spec }: AgentConfiguration): readonly string[] {
  return (['failsafeInboundHostPorts', 'failsafeOutboundHostPorts'] as const)
    .filter((list) => spec[list]?.every(({ port }) => port !== TYPHA_PORTS.clients) === true)
    .map((list) => `AgentConfiguration ${metadata.name}: ${list}`);
}

function replicasOf(spec: unknown): number {
  const replicas = isRecord(spec) ? spec['replicas'] : undefined;
  return typeof replicas === 'number' ? replicas : 1;
}
