import * as v from 'valibot';
import { NetplugError } from '../base/errors.ts';
import { readAnnotations } from '../model/annotation-keys.ts';
import { declaredSidecar } from '../model/declared-sidecar.ts';
import { countedPorts, type PodFacts, type PodPort } from '../model/pod.ts';
import { knownLabels } from '../model/selector.ts';
import { type Cidr, tryReadCidr } from '../net/cidr.ts';
import type { ApiObject } from './objects.ts';
import type { OrchApi } from './orch-api.ts';
import { NAMESPACES, NODES, PODS } from './paths.ts';
import { given } from '../base/given.ts';

const containerPort = v.looseObject({
  name: v.optional(v.string()),
  protocol: v.optional(v.string(), 'TCP'),
  containerPort: v.number(),
  hostPort: v.optional(v.number()),
  hostIP: v.optional(v.string()),
});
const container = v.looseObject({
  name: v.optional(v.string()),
  image: v.optional(v.string()),
  args: v.optional(v.array(v.string())),
  restartPolicy: v.optional(v.string()),
  ports: v.optional(v.array(containerPort), []),
});
const podSpec = v.looseObject({
  serviceAccountName: v.optional(v.string()),
  nodeName: v.optional(v.string()),
  containers: v.optional(v.array(container), []),
  initContainers: v.optional(v.array(container), []),
});
const nodeSpec = v.looseObject({ podCIDR: v.optional(v.string()), podCIDRs: v.optional(v.array(v.string())) });

/** A pod with its namespace's annotations; both are asked for at once. @throws orch/not-found, store/* */
export async function readPodFacts(
  api: OrchApi,
  { namespace, name }: { namespace: string; name: string },
  signal: AbortSignal,
): Promise<PodFacts> {
  const [pod, space] = await Promise.all([
    insist(api.get({ ...PODS, namespace }, name, signal), `pod "${namespace}/${name}"`),
    insist(api.get(NAMESPACES, namespace, signal), `namespace "${namespace}"`),
  ]);
  return { ...ownFactsOf(pod), namespaceAnnotations: readAnnotations(space.metadata.annotations) };
}

/** Returns the facts that the pod itself states. */
export function ownFactsOf({ metadata, ...pod }: ApiObject): Omit<PodFacts, 'namespaceAnnotations'> {
  const spec = v.parse(podSpec, pod['spec'] ?? {});
  // Sidecars, which serve as long as the pod lives, are init containers to the API.
  const sidecars = spec.initContainers.filter(({ restartPolicy }) => restartPolicy === 'Always');
  const annotations = readAnnotations(metadata.annotations);
  return {
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    uid: metadata.uid ?? '',
    labels: knownLabels(metadata.labels),
    annotations,
    serviceAccount: spec.serviceAccountName,
    nodeName: spec.nodeName,
    ports: countedPorts([...sidecars, ...spec.containers].flatMap(({ ports }) => ports.flatMap(portOf))),
    sidecar: declaredSidecar([...spec.initContainers, ...spec.containers], annotations),
  };
}

/** The pod CIDRs of a node, in the orchestrator's order. @throws orch/not-found, store/* */
export async function readPodCidrs(api: OrchApi, node: string, signal: AbortSignal): Promise<readonly Cidr[]> {
  return podCidrsOf(await insist(api.get(NODES, node, signal), `node "${node}"`));
}

/** The same of a node that was read. */
export function podCidrsOf(node: ApiObject): readonly Cidr[] {
  const spec = v.parse(nodeSpec, node['spec'] ?? {});
  const texts = spec.podCIDRs ?? (spec.podCIDR === undefined ? [] : [spec.podCIDR]);
  return texts.flatMap((text) => tryReadCidr(text)?.cidr ?? []);
}

/** Policy knows ports by name, and host ports. */
function portOf({
  name,
  protocol,
  containerPort: port,
  hostPort,
  hostIP,
}: v.InferOutput<typeof containerPort>): PodPort[] {
  if (name === undefined && hostPort === undefined) return [];
  return [{ protocol, port, ...given({ name, hostPort, hostIP }) }];
}

async function insist(asked: ReturnType<OrchApi['get']>, what: string): Promise<ApiObject> {
  const answer = await asked;
  if (answer.outcome === 'ok') return answer.value;
  throw new NetplugError('orch/not-found', `Cannot read ${what} from the orchestrator: ${answer.message}`, {
    hint: 'It may have been deleted meanwhile; otherwise check that the configuration names the right cluster',
  });
}
