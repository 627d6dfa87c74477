import { MemoryDatabase } from '../../src/datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../src/datastore/memory/memory-store.ts';
import type { WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { cannedApi, type CannedAnswers } from './canned-api.ts';
import { callCtl, type Ran } from './ctl.ts';

const ALLOW_ALL = [{ action: 'Allow' }];

/** A cluster in memory, for commands that explain policies. */
export interface CtlCluster {
  run(argv: string): Promise<Ran>;
  /** Origins of the servers of the datastore. */
  readonly servers: string[];
  /** Answers of the API of the cluster; without any, nothing leads to one. */
  api: CannedAnswers | undefined;
  /** Writes resources. */
  apply(...items: readonly object[]): Promise<void>;
}

/** Starts with the pods and the profile of their namespace `shop`, which allows all traffic. */
export async function ctlCluster(pods: readonly WorkloadEndpoint[]): Promise<CtlCluster> {
  const database = new MemoryDatabase();
  await using store = openMemoryStore(database);
  for (const endpoint of pods) await store.commit([{ kind: 'put-endpoint', endpoint }], new AbortController().signal);
  const call = async (argv: readonly string[], stdin: string): Promise<Ran> =>
    callCtl(argv, {
      env: {
        KV_ENDPOINTS: 'http://127.0.0.1:1',
        ...(cluster.api === undefined ? {} : { ORCH_API_ROOT: 'http://127.0.0.1:1' }),
      },
      stdin,
      openStore: () => openMemoryStore(database),
      openApi: () => cannedApi(cluster.api ?? {}),
    });
  const apply: CtlCluster['apply'] = async (...items) => {
    const { status, err } = await call(['apply', '-f', '-'], JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    if (status !== 0) throw new Error(err);
  };
  const { servers } = database;
  const cluster: CtlCluster = { run: async (argv) => call(argv.split(' '), ''), servers, api: undefined, apply };
  await apply({
    apiVersion: 'netplug.io/v3',
    kind: 'Profile',
    metadata: { name: 'kns.shop' },
    spec: { ingress: ALLOW_ALL, egress: ALLOW_ALL, labelsToApply: { 'pcns.team': 'a' } },
  });
  return cluster;
}

/** The endpoint of a pod of the namespace `shop`. */
export function podOf(name: string, node: string, ipNetworks: readonly string[]): WorkloadEndpoint {
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name: `${node}-orch-${name}-eth0`, namespace: 'shop', labels: { app: name } },
    spec: {
      orchestrator: 'orch',
      node,
      network: 'net',
      containerID: name,
      pod: name,
      endpoint: 'eth0',
      interfaceName: `npl${name}`,
      mac: '',
      ipNetworks,
      profiles: ['kns.shop', 'ksa.shop.default'],
      ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
      ipam: '',
    },
  };
}

/** A policy of the namespace `shop`. */
export function policyOf(name: string, spec: object): object {
  return { apiVersion: 'netplug.io/v3', kind: 'NetworkPolicy', metadata: { name, namespace: 'shop' }, spec };
}

/** Answers with a pod of the DNS cache of a node, `n1` unless set, at these addresses. Tenants' pods of the same labels are none. */
export function dnsCacheAnswers(
  addresses: readonly string[],
  { node = 'n1', ready = 'True', phase = 'Running' } = {},
): CannedAnswers {
  const container = { args: ['-localip', addresses.join(','), '-conf', '/etc/Corefile'] };
  const pod = {
    metadata: { name: 'node-local-dns-1', namespace: 'kube-system' },
    spec: { hostNetwork: true, nodeName: node, containers: [container] },
    status: { phase, conditions: [{ type: 'Ready', status: ready }] },
  };
  const list = (items: readonly object[]): object => ({ metadata: { resourceVersion: '1' }, items });
  return {
    '/api/v1/services': list([]),
    '/api/v1/namespaces/kube-system/pods': list([pod]),
    '/api/v1/namespaces/netplug-system/pods': list([]),
  };
}
