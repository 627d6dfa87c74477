import type { PodState } from '../../../kube/status/pod-state.ts';
import * as v from 'valibot';
import { NetplugError, reasonOf } from '../../../base/errors.ts';
import {
  PROBE,
  PROBE_PODS,
  probeClientPod,
  type ProbeImage,
  probePolicy,
  probeServerPod,
  probeService,
  probeTargets,
  probeUrl,
} from '../../../install/cluster/probe-objects.ts';
import { SYSTEM_NAMESPACE } from '../../../install/cluster/names.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { ENDPOINT_SLICES, SERVICES } from '../../../kube/paths.ts';
import { applyObject, deleteObject } from '../../../kube/objects/apply.ts';
import { referenceOf } from '../../../kube/objects/reference.ts';
import { type PodRun, removePodsNamed, runPods } from './node-pods.ts';

const CLIENT_SECONDS = 60;
const REMOVAL_MS = 90_000;
const DNS_SERVICES = { ...SERVICES, namespace: 'kube-system' };
const ServiceSpec = v.object({ spec: v.looseObject({ clusterIP: v.string() }) });
const Slice = v.object({
  endpoints: v.nullish(
    v.array(v.looseObject({ conditions: v.optional(v.looseObject({ ready: v.optional(v.boolean()) })) })),
  ),
});

export interface Proof {
  readonly nodes: readonly string[];
  readonly image: ProbeImage;
  /** Whether NetworkPolicies come into force. */
  readonly hasPolicy: boolean;
  /** Returns what is wrong with the addresses of running pods, a sentence each. */
  readonly addressFaults?: (pods: readonly PodState[]) => Promise<readonly string[]>;
}

/**
 * Starts a pair of pods on each node and removes them again. They reach the pods of every node with requests and with datagrams
 * that fill a packet, and a Service by its address and by its name; a NetworkPolicy keeps them from one port.
 * @throws install/not-ready naming what failed
 */
export async function proveNetwork(run: PodRun, { nodes, image, hasPolicy, addressFaults }: Proof): Promise<void> {
  const { api, signal, onProgress } = run;
  if (nodes.length === 0) {
    throw new NetplugError('install/not-ready', 'Cannot prove the network: no node is ready', {
      hint: 'See "kubectl get nodes", and run the command again once a node is ready',
    });
  }
  const servers = nodes.map((node) => probeServerPod({ ...image, node }));
  await removeProof(run);
  try {
    const applied = await applyObject(api, { object: probeService(image.release) }, signal);
    if (hasPolicy) await applyObject(api, { object: probePolicy(image.release) }, signal);
    const running = await runPods(run, { pods: servers, until: 'ready', what: 'probe pods' });
    refuseFailed(running, 'start probe pods');
    refuseFaults((await addressFaults?.(running)) ?? []);
    const { clusterIP } = v.parse(ServiceSpec, applied).spec;
    const hasDns = await isDnsReady(api, signal);
    const named = hasDns ? [probeUrl(`${PROBE}.${SYSTEM_NAMESPACE}.svc`)] : [];
    const each = running.flatMap((server) => server.addresses).map((address) => probeTargets(address, { hasPolicy }));
    const open = [...each.flatMap((target) => target.open), probeUrl(clusterIP), ...named];
    const targets = { open, closed: each.flatMap((target) => target.closed) };
    const clients = nodes.map((node) => probeClientPod({ ...image, node }, targets, CLIENT_SECONDS));
    const done = await runPods(run, { pods: clients, until: 'succeeded', what: 'connections' });
    refuseFailed(done, 'reach every pod');
    const proved = [
      `${String(nodes.length)} nodes`,
      `${String(open.length * nodes.length)} connections`,
      'packets of full size',
      `Service ${clusterIP}`,
      ...(hasDns ? ['DNS'] : []),
      ...(hasPolicy ? ['policy'] : []),
      ...(addressFaults === undefined ? [] : ['addresses']),
    ];
    onProgress(`network proved: ${proved.join(', ')}`);
    if (!hasDns) onProgress('DNS not proved: the cluster has no Service of it with a ready pod');
    if (!hasPolicy) onProgress('policy not proved: nothing brings NetworkPolicies into force in this installation');
  } finally {
    // Also when the command is interrupted.
    await removeProof({ ...run, signal: AbortSignal.timeout(REMOVAL_MS) }).catch((cause: unknown) => {
      onProgress(`what proved the network is not removed: ${reasonOf(cause)}`);
    });
  }
}

/** Removes what proves the network, also what a program that was killed has left. */
export async function removeProof(run: Omit<PodRun, 'onProgress'>): Promise<void> {
  for (const object of [probeService(''), probePolicy('')])
    await deleteObject(run.api, referenceOf(object), run.signal);
  await removePodsNamed(run, PROBE_PODS);
}

/** Reports whether the name service of the cluster has a pod that answers. */
async function isDnsReady(api: OrchApi, signal: AbortSignal): Promise<boolean> {
  const services = await api.list(DNS_SERVICES, { labelSelector: 'k8s-app=kube-dns' }, signal);
  for (const { metadata } of services) {
    const labelSelector = `kubernetes.io/service-name=${metadata.name}`;
    const slices = await api.list({ ...ENDPOINT_SLICES, namespace: DNS_SERVICES.namespace }, { labelSelector }, signal);
    const endpoints = slices.flatMap((slice) => {
      const read = v.safeParse(Slice, slice);
      return read.success ? (read.output.endpoints ?? []) : [];
    });
    if (endpoints.some(({ conditions }) => conditions?.ready !== false)) return true;
  }
  return false;
}

function refuseFailed(states: readonly PodState[], what: string): void {
  const failed = states.filter(({ phase }) => phase === 'failed');
  if (failed.length === 0) return;
  const lines = failed.map(
    ({ node, name, reason = '', output = reason }) =>
      `\n  ${node === '' ? name : node}: ${output.replaceAll('\n', '; ')}`,
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

function refuseFaults(faults: readonly string[]): void {
  if (faults.length === 0) return;
  throw new NetplugError('install/not-ready', `Cannot prove the addresses of pods: ${faults.join('; ')}`, {
    hint: 'Run "netplugctl ipam check"',
  });
}
