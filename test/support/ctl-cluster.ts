import { MemoryDatabase } from '../../src/datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../src/datastore/memory/memory-store.ts';
import type { WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { callCtl, type Ran } from './ctl.ts';

const ALLOW_ALL = [{ action: 'Allow' }];

/** A cluster in memory, for commands that explain policies. */
export interface CtlCluster {
  run(argv: string): Promise<Ran>;
  /** Origins of the servers of the datastore. */
  readonly servers: string[];
  /** Writes resources. */
  apply(...items: readonly object[]): Promise<void>;
}

/** Starts with the pods and the profile of their namespace `shop`, which allows all traffic. */
export async function ctlCluster(pods: readonly WorkloadEndpoint[]): Promise<CtlCluster> {
  const database = new MemoryDatabase();
  await using store = openMemoryStore(database);
  for (const endpoint of pods) await store.commit([{ kind: 'put-endpoint', endpoint }], new AbortController().signal);
  const call = async (argv: readonly string[], stdin: string): Promise<Ran> =>
    callCtl(argv, { env: { KV_ENDPOINTS: 'http://127.0.0.1:1' }, stdin, openStore: () => openMemoryStore(database) });
  const apply: CtlCluster['apply'] = async (...items) => {
    const { status, err } = await call(['apply', '-f', '-'], JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    if (status !== 0) throw new Error(err);
  };
  await apply({
    apiVersion: 'netplug.io/v3',
    kind: 'Profile',
    metadata: { name: 'kns.shop' },
    spec: { ingress: ALLOW_ALL, egress: ALLOW_ALL, labelsToApply: { 'pcns.team': 'a' } },
  });
  return { run: async (argv) => call(argv.split(' '), ''), servers: database.servers, apply };
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
