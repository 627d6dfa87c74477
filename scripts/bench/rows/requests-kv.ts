// What one pod costs the datastore on kv, and what of it an ADD or DEL waits for.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { type Testbed, openTestbed } from '../testbed.ts';
import { figuresOf, PODS_IN_FLIGHT, requestsPerPod } from '../requests-per-pod.ts';
import type { MeasureRow } from '../report.ts';

export const measureRequestsOnKv: MeasureRow = async ({ candidates }) => {
  const netplugs = candidates.filter((name) => name !== 'ptp');
  await using testbed = await openTestbed({ candidates: netplugs, namespaces: PODS_IN_FLIGHT });
  const measured = await requestsPerPod(testbed, {
    register: async (pods) => pods,
    countRequests: async () => etcdRequests(testbed),
    pause: async () => {
      await signalEtcd(testbed, 'STOP');
      return async () => signalEtcd(testbed, 'CONT');
    },
  });
  return { figures: figuresOf('kv', measured) };
};

/** Requests to its key-value service that etcd has answered, whoever has asked; watches are none. */
async function etcdRequests({ node }: Testbed): Promise<number> {
  const metrics = await node.exec('curl', '--silent', '--fail', 'http://127.0.0.1:2379/metrics');
  const counts = metrics.matchAll(/^grpc_server_handled_total\{.*grpc_service="etcdserverpb.KV".*\} (\d+)$/gm);
  return [...counts].reduce((sum, match) => sum + Number(match[1]), 0);
}

/** Stopped, etcd accepts connections and answers nobody. */
async function signalEtcd({ node }: Testbed, signal: 'STOP' | 'CONT'): Promise<void> {
  await node.exec('pkill', `-${signal}`, '-x', 'etcd');
  // nsenter stops itself with its child, and nobody would bury the child later.
  if (signal === 'CONT') await promisify(execFile)('pkill', ['-CONT', '-P', String(process.pid), '-x', 'nsenter']);
}
