import { tryParseJson } from '../../base/try-parse-json.ts';
import { createHash } from 'node:crypto';
import * as v from 'valibot';
import { isLabelValue } from '../../model/metadata.ts';
import { API_VERSION } from '../../model/resource.ts';
import { endpointName, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import type { ApiObject } from '../../orch-api/objects.ts';
import type { Stored } from '../store.ts';
import { Unreadable } from './unreadable.ts';

/** Addresses of the pod as CIDRs, for policy: there before the kubelet reports them, empty once they are given up. */
export const POD_IPS = 'cni.netplug/podIPs';
/** The sandbox that the addresses belong to. */
export const CONTAINER_ID = 'cni.netplug/containerID';
/** What nobody else knows of the endpoint, one annotation per interface. */
const ENDPOINT = 'cni.netplug/endpoint.';
/** The interface whose addresses the orchestrator means when it speaks of those of the pod. */
const MAIN_INTERFACE = 'eth0';

/** `id` never repeats, so that a late release does not clear a newer write of the same container. */
const packed = v.looseObject({
  id: v.string(),
  network: v.string(),
  containerID: v.string(),
  endpoint: v.string(),
  interfaceName: v.string(),
  mac: v.string(),
  ipNetworks: v.array(v.string()),
  ipv4Gateway: v.exactOptional(v.string()),
  ipv6Gateway: v.exactOptional(v.string()),
  profiles: v.array(v.string()),
  ipam: v.string(),
});
const podSpec = v.looseObject({ nodeName: v.exactOptional(v.string()) });

export function isMainInterface(ifName: string): boolean {
  return ifName === MAIN_INTERFACE;
}

/** The annotation of one interface; a name with characters that no annotation may have is hashed. */
export function endpointKey(ifName: string): string {
  const isPlain = isLabelValue(ifName) && !ifName.startsWith('sha256-');
  const part = isPlain ? ifName : `sha256-${createHash('sha256').update(ifName).digest('hex').slice(0, 40)}`;
  return `${ENDPOINT}${part}`;
}

export function packEndpoint({ spec }: WorkloadEndpoint, id: string): string {
  const { orchestrator: _, node: _node, pod: _pod, podUID: _uid, ...rest } = spec;
  return JSON.stringify({ id, ...rest });
}

/** The endpoints of a pod, one per interface that netplug made; its labels, node and uid come from the pod itself. */
export function readEndpoints(pod: ApiObject): (Stored<WorkloadEndpoint> | Unreadable)[] {
  return endpointTexts(pod).map(([key, text]) => readEndpoint(pod, key, text));
}

/** The annotations of a pod that hold endpoints. */
export function endpointTexts({ metadata }: ApiObject): [key: string, text: string][] {
  return Object.entries(metadata.annotations ?? {}).filter(([key]) => key.startsWith(ENDPOINT));
}

export function readEndpoint(pod: ApiObject, key: string, text: string): Stored<WorkloadEndpoint> | Unreadable {
  const { name, namespace = 'default' } = pod.metadata;
  const read = v.safeParse(packed, tryParseJson(text));
  if (!read.success) return unreadable(pod, key, read.issues[0].message);
  if (endpointKey(read.output.endpoint) !== key) return unreadable(pod, key, 'it is of another interface');
  const spec = v.safeParse(podSpec, pod['spec']);
  const node = spec.success ? spec.output.nodeName : undefined;
  if (node === undefined) return unreadable(pod, key, 'the pod is on no node');
  return { value: endpointOf({ pod, name, namespace, node }, read.output), version: text };
}

function endpointOf(
  { pod, name, namespace, node }: { pod: ApiObject; name: string; namespace: string; node: string },
  { network, containerID, ...more }: v.InferOutput<typeof packed>,
): WorkloadEndpoint {
  const { id: _, ...rest } = more;
  const { uid, labels } = pod.metadata;
  const orchestrator = 'orch';
  return {
    apiVersion: API_VERSION,
    kind: 'WorkloadEndpoint',
    metadata: {
      name: endpointName({ node, orchestrator, workload: name, endpoint: rest.endpoint }),
      namespace,
      labels: { ...labels, 'netplug/namespace': namespace, 'netplug/orchestrator': orchestrator },
    },
    // In the order in which ADD plans it: it compares texts to see whether anything must be written.
    spec: {
      orchestrator,
      node,
      network,
      containerID,
      pod: name,
      ...(uid === undefined ? {} : { podUID: uid }),
      ...rest,
    },
  };
}

function unreadable({ metadata }: ApiObject, key: string, why: string): Unreadable {
  return new Unreadable(`annotation "${key}" of pod`, `${metadata.namespace ?? ''}/${metadata.name}`, why);
}
