import * as v from 'valibot';
import { type Address, tryParseAddress } from '../../net/address.ts';
import { formatCidr, hostCidr, tryReadCidr } from '../../net/cidr.ts';
import { MIRROR_ANNOTATION } from '../annotation-keys.ts';
import { countedPorts, type PodPort } from '../pod.ts';
import {
  NAMESPACE_LABEL,
  namespaceProfile,
  ORCHESTRATOR_LABEL,
  ownLabels,
  SERVICE_ACCOUNT_LABEL,
  serviceAccountProfile,
} from '../policy-names.ts';
import { API_VERSION } from '../resource.ts';
import { endpointName, MAIN_INTERFACE, type WorkloadEndpoint } from '../workload-endpoint.ts';
import { ageOf, type Converted, type KubernetesObject } from './kubernetes-object.ts';

const ContainerPort = v.object({
  name: v.exactOptional(v.string()),
  protocol: v.optional(v.string(), 'TCP'),
  containerPort: v.number(),
  hostPort: v.exactOptional(v.number()),
  hostIP: v.exactOptional(v.string()),
});
const Container = v.object({
  restartPolicy: v.nullish(v.string()),
  ports: v.nullish(v.array(ContainerPort), []),
});
const Containers = v.nullish(v.array(Container), []);
const Spec = v.object({
  hostNetwork: v.nullish(v.boolean(), false),
  nodeName: v.nullish(v.string(), ''),
  serviceAccountName: v.nullish(v.string(), ''),
  containers: Containers,
  initContainers: Containers,
});
const Status = v.object({
  phase: v.nullish(v.string(), ''),
  podIP: v.nullish(v.string(), ''),
  podIPs: v.nullish(v.array(v.object({ ip: v.nullish(v.string(), '') })), []),
});
type PodSpec = v.InferOutput<typeof Spec>;

/**
 * Returns what policy must know of a pod: no value for a pod in the network of its host, without a node, or finished. Its
 * addresses are those that the kubelet reports: only kubelets write the status of a pod, and its users nearly all the rest.
 * Container, link and network are known to its node alone. A pod that stands for a static pod has no UID that calls know.
 */
export function fromPod(pod: KubernetesObject): Converted<WorkloadEndpoint> {
  const { name, namespace = 'default', uid } = pod.metadata;
  const read = v.safeParse(v.object({ spec: Spec, status: v.optional(Status, {}) }), pod);
  if (!read.success) {
    const why = read.issues[0].message;
    return { value: undefined, problems: [`Pod ${namespace}/${name} cannot be used: ${why}`] };
  }
  const { spec, status } = read.output;
  const node = spec.nodeName;
  const isFinished = status.phase === 'Succeeded' || status.phase === 'Failed';
  if (spec.hostNetwork || node === '' || isFinished) return { value: undefined, problems: [] };
  const account = spec.serviceAccountName;
  const problems: string[] = [];
  const addresses = reportedIn(status).flatMap((text) => {
    const address = addressOf(text);
    if (address === undefined) problems.push(`Pod ${namespace}/${name}: "${text}" is no address`);
    return address === undefined ? [] : [address];
  });
  const declared = portsOf(spec);
  const ports = countedPorts(declared);
  if (declared.length > ports.length)
    problems.push(
      `Pod ${namespace}/${name} has more ports with a name or a port of the host than count for rules: they know the first ones`,
    );
  const value: WorkloadEndpoint = {
    apiVersion: API_VERSION,
    kind: 'WorkloadEndpoint',
    metadata: {
      name: endpointName({ node, orchestrator: 'orch', workload: name, endpoint: MAIN_INTERFACE }),
      namespace,
      labels: labelsOf(pod, namespace, account),
      ...ageOf(pod),
    },
    spec: {
      orchestrator: 'orch',
      node,
      network: '',
      containerID: '',
      pod: name,
      ...(uid === undefined || isMirror(pod) ? {} : { podUID: uid }),
      endpoint: MAIN_INTERFACE,
      interfaceName: '',
      mac: '',
      ipNetworks: addresses.map((address) => formatCidr(hostCidr(address))),
      ...(addresses.length > 0 ? { areAddressesReported: true } : {}),
      ...(isTerminating(pod) ? { isTerminating: true } : {}),
      profiles: [namespaceProfile(namespace), ...(account === '' ? [] : [serviceAccountProfile(namespace, account)])],
      ...(account === '' ? {} : { serviceAccountName: account }),
      ...(ports.length === 0 ? {} : { ports }),
      ipam: '',
    },
  };
  return { value, problems };
}

function reportedIn({ podIP, podIPs }: v.InferOutput<typeof Status>): readonly string[] {
  const reported = podIPs.map(({ ip }) => ip).filter((ip) => ip !== '');
  return reported.length > 0 || podIP === '' ? reported : [podIP];
}

function isMirror({ metadata }: KubernetesObject): boolean {
  return metadata.annotations?.[MIRROR_ANNOTATION] !== undefined;
}

function isTerminating({ metadata }: KubernetesObject): boolean {
  return metadata.deletionTimestamp !== undefined && metadata.deletionTimestamp !== null;
}

function addressOf(text: string): Address | undefined {
  return tryParseAddress(text) ?? tryReadCidr(text)?.address;
}

function labelsOf(pod: KubernetesObject, namespace: string, account: string): Readonly<Record<string, string>> {
  return {
    ...ownLabels(pod.metadata.labels),
    [NAMESPACE_LABEL]: namespace,
    [ORCHESTRATOR_LABEL]: 'orch',
    ...(account === '' ? {} : { [SERVICE_ACCOUNT_LABEL]: account }),
  };
}

/** Returns the ports of containers and sidecars that rules can name, and host ports. */
function portsOf({ initContainers, containers }: PodSpec): PodPort[] {
  const sidecars = initContainers.filter(({ restartPolicy }) => restartPolicy === 'Always');
  return [...sidecars, ...containers].flatMap(({ ports }) =>
    ports.flatMap(({ containerPort: port, ...rest }) =>
      rest.name === undefined && rest.hostPort === undefined ? [] : [{ ...rest, port }],
    ),
  );
}
