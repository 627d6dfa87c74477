import { tryParseJson } from '../../base/try-parse-json.ts';
import { sha256Of } from '../../base/sha256.ts';
import * as v from 'valibot';
import { isContainerId, isInterfaceName } from '../../model/interface-name.ts';
import { isLabelValue } from '../../model/metadata.ts';
import { ENDPOINT_NOTE } from '../../model/notes.ts';
import { API_VERSION } from '../../model/resource.ts';
import { endpointName, MAIN_INTERFACE, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import { bitsOf, tryParseAddress } from '../../net/address.ts';
import { tryReadCidr } from '../../net/cidr.ts';
import { tryParseMac } from '../../net/mac.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { Stored } from '../allocation-store.ts';
import { Unreadable } from './unreadable.ts';

/** More interfaces than any pod has, and more text than one needs. Netplug did not write what exceeds these limits. */
const MOST_NOTES = 8;
const LONGEST_NOTE = 32_768;

const text = v.pipe(v.string(), v.maxLength(1024));
const word = v.pipe(text, v.nonEmpty());
const address = v.pipe(
  text,
  v.check((each) => tryParseAddress(each) !== undefined, 'it is no IP address'),
);
const port = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(65_535));

/**
 * Every field is validated and unknown ones are dropped, because users who may change a pod can write anything here. `id`
 * never repeats, so that two writes of the same content differ.
 */
const packed = v.object({
  id: word,
  network: word,
  containerID: v.pipe(word, v.check(isContainerId, 'it is no container id')),
  endpoint: v.pipe(word, v.check(isInterfaceName, 'it is no interface name')),
  interfaceName: v.pipe(
    text,
    v.check((each) => each === '' || isInterfaceName(each), 'it is no interface name'),
  ),
  mac: v.pipe(
    text,
    v.check((each) => tryParseMac(each) !== undefined, 'it is no MAC address'),
  ),
  ipNetworks: v.array(v.pipe(text, v.check(isHostCidr, 'it is no /32 or /128'))),
  ipv4Gateway: v.exactOptional(address),
  ipv6Gateway: v.exactOptional(address),
  profiles: v.array(text),
  serviceAccountName: v.exactOptional(word),
  ports: v.exactOptional(
    v.array(
      v.object({
        name: v.exactOptional(word),
        protocol: word,
        port,
        hostPort: v.exactOptional(port),
        hostIP: v.exactOptional(address),
      }),
    ),
  ),
  ipNATs: v.exactOptional(v.array(v.object({ internalIP: address, externalIP: address }))),
  ipam: word,
});
const podSpec = v.looseObject({ nodeName: v.exactOptional(v.string()) });

export function isMainInterface(ifName: string): boolean {
  return ifName === MAIN_INTERFACE;
}

/** The annotation of one interface; a name with characters that no annotation may have is hashed. */
export function annotationKey(ifName: string): string {
  const isPlain = isLabelValue(ifName) && !ifName.startsWith('sha256-');
  const part = isPlain ? ifName : `sha256-${sha256Of(ifName).slice(0, 40)}`;
  return `${ENDPOINT_NOTE}${part}`;
}

export function packEndpoint({ spec }: WorkloadEndpoint, id: string): string {
  const { orchestrator: _, node: _node, pod: _pod, podUID: _uid, ...rest } = spec;
  return JSON.stringify({ id, ...rest });
}

/** Returns the endpoints of a pod, one per interface of netplug. Labels, node and uid come from the pod itself. */
export function readEndpoints(pod: ApiObject): (Stored<WorkloadEndpoint> | Unreadable)[] {
  return endpointTexts(pod).map(([key, text]) => readEndpoint(pod, key, text));
}

/** Returns the annotations of a pod that hold endpoints, up to the limit. */
export function endpointTexts({ metadata }: ApiObject): [key: string, text: string][] {
  const notes = Object.entries(metadata.annotations ?? {}).filter(([key]) => key.startsWith(ENDPOINT_NOTE));
  // The main interface is always among them, also when users added many more.
  const order = ([key]: [string, string]): number => (key === annotationKey(MAIN_INTERFACE) ? 0 : 1);
  return notes.toSorted((a, b) => order(a) - order(b)).slice(0, MOST_NOTES);
}

export function readEndpoint(pod: ApiObject, key: string, text: string): Stored<WorkloadEndpoint> | Unreadable {
  const { name, namespace = 'default' } = pod.metadata;
  if (text.length > LONGEST_NOTE) return unreadable(pod, key, 'it is too long');
  const read = v.safeParse(packed, tryParseJson(text));
  if (!read.success) return unreadable(pod, key, describe(read.issues[0]));
  if (annotationKey(read.output.endpoint) !== key) return unreadable(pod, key, 'it is of another interface');
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

function isHostCidr(text: string): boolean {
  const read = tryReadCidr(text);
  return read !== undefined && read.cidr.prefixBits === bitsOf(read.address.family);
}

function describe(issue: v.BaseIssue<unknown>): string {
  const path = v.getDotPath(issue);
  return path === null ? issue.message : `${path}: ${issue.message}`;
}

function unreadable({ metadata }: ApiObject, key: string, why: string): Unreadable {
  return new Unreadable(`annotation "${key}" of pod`, `${metadata.namespace ?? ''}/${metadata.name}`, why);
}
