import { NetplugError } from '../../../base/errors.ts';
import {
  probeClientPod,
  type ProbeImage,
  PROBE_PORT_NUMBER,
  probeServerPod,
  probeService,
} from '../../../install/cluster/probe-objects.ts';
import * as v from 'valibot';
import { applyObject, deleteObject, locate } from './api-objects.ts';
import { type PodRun, type PodState, removePods, runPods } from './node-pods.ts';

const CLIENT_SECONDS = 60;
const ServiceSpec = v.object({ spec: v.looseObject({ clusterIP: v.string() }) });

/**
 * Starts a pair of pods on each node, which reach the pods of every node and a Service in front of them, and removes them
 * again. @throws install/not-ready naming the connections that failed
 */
export async function proveNetwork(run: PodRun, nodes: readonly string[], image: ProbeImage): Promise<void> {
  const { api, signal, onProgress } = run;
  const servers = nodes.map((node) => probeServerPod({ ...image, node }));
  const service = probeService(image.release);
  const clients: ReturnType<typeof probeClientPod>[] = [];
  try {
    const applied = await applyObject(api, { object: service }, signal);
    const running = await runPods(run, { pods: servers, until: 'ready', what: 'probe pods' });
    refuseFailed(running, 'start probe pods');
    const read = v.safeParse(ServiceSpec, applied);
    const addresses = running.flatMap((server) => server.addresses);
    const targets = [...addresses, ...(read.success ? [read.output.spec.clusterIP] : [])].map(urlOf);
    clients.push(...nodes.map((node) => probeClientPod({ ...image, node }, targets, CLIENT_SECONDS)));
    const done = await runPods(run, { pods: clients, until: 'succeeded', what: 'connections' });
    refuseFailed(done, 'reach every pod');
    onProgress(
      `network proved: ${String(nodes.length)} nodes, ${String(targets.length * nodes.length)} connections, Service ${read.success ? read.output.spec.clusterIP : ''}`,
    );
  } finally {
    // Also when the command is interrupted.
    const left = { ...run, signal: AbortSignal.timeout(30_000) };
    await removePods(left, [...clients, ...servers]);
    await deleteObject(api, locate(service), left.signal);
  }
}

function urlOf(address: string): string {
  return `http://${address.includes(':') ? `[${address}]` : address}:${String(PROBE_PORT_NUMBER)}/`;
}

function refuseFailed(states: readonly PodState[], what: string): void {
  const failed = states.filter(({ phase }) => phase === 'failed');
  if (failed.length === 0) return;
  const lines = failed.map(
    ({ node, name, reason = '' }) => `\n  ${node === '' ? name : node}: ${reason.trim().replaceAll('\n', '; ')}`,
  );
  throw new NetplugError(
    'install/not-ready',
    `Cannot ${what}: ${String(failed.length)} of ${String(states.length)} nodes failed${lines.join('')}`,
    {
      hint: 'Run "netplugctl doctor" on a node that failed; look for firewalls between the nodes (UDP 4789 for VXLAN)',
      facts: { nodes: failed.map(({ node }) => node) },
    },
  );
}
