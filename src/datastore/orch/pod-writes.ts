import { NetplugError } from '../../base/errors.ts';
import type { WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import type { OrchApi } from '../../orch-api/orch-api.ts';
import { type Collection, isObjectName, PODS } from '../../orch-api/paths.ts';
import type { Outcome, Stored } from '../store.ts';
import { CONTAINER_ID, endpointKey, isMainInterface, packEndpoint, POD_IPS } from './pod-endpoints.ts';

interface PodRef {
  readonly collection: Collection;
  readonly name: string;
}

/**
 * Notes the endpoint on its pod, in one request. Nothing is written for a pod that is gone or has been made anew, nor
 * for an endpoint without a pod: then the blocks and the kernel know all there is to know.
 * @throws resource/invalid when the API does not take the annotations
 */
export async function writeEndpoint(
  api: OrchApi,
  { endpoint, id }: { readonly endpoint: WorkloadEndpoint; readonly id: string },
  signal: AbortSignal,
): Promise<void> {
  const pod = podOf(endpoint);
  if (pod === undefined) return;
  const { podUID: uid, endpoint: ifName, ipNetworks, containerID } = endpoint.spec;
  const annotations = {
    [endpointKey(ifName)]: packEndpoint(endpoint, id),
    ...(isMainInterface(ifName) ? { [POD_IPS]: ipNetworks.join(','), [CONTAINER_ID]: containerID } : {}),
  };
  // With the uid in it the patch is refused for a pod of the same name that was made since.
  const body = { metadata: { ...(uid === undefined ? {} : { uid }), annotations } };
  const answer = await api.patch(pod, { kind: 'merge', body }, signal);
  if (answer.outcome === 'ok' || answer.outcome === 'not-found') return;
  if (uid !== undefined && /\buid\b/i.test(answer.message)) return;
  throw new NetplugError(
    'resource/invalid',
    `Cannot note the address on pod "${endpoint.metadata.namespace ?? ''}/${pod.name}": ${answer.message}`,
    { hint: 'Look for an admission webhook that refuses it, or for annotations near the limit of 256 KiB' },
  );
}

/**
 * Takes the note back if it is still the one that was read, in one request: each step tests what it changes, so that
 * neither a newer attachment nor another pod loses its own. A pod that is gone needs nothing.
 */
export async function clearEndpoint(
  api: OrchApi,
  { value, version }: Stored<WorkloadEndpoint>,
  signal: AbortSignal,
): Promise<Outcome> {
  const pod = podOf(value);
  if (pod === undefined) return 'committed';
  const { podUID, endpoint: ifName } = value.spec;
  const at = (key: string): string => `/metadata/annotations/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  const body = [
    ...(podUID === undefined ? [] : [{ op: 'test', path: '/metadata/uid', value: podUID }]),
    { op: 'test', path: at(endpointKey(ifName)), value: version },
    { op: 'remove', path: at(endpointKey(ifName)) },
    // Blank rather than gone: a pod that is ending must not seem to have the address its status still tells.
    ...(isMainInterface(ifName) ? [{ op: 'add', path: at(POD_IPS), value: '' }] : []),
  ];
  const answer = await api.patch(pod, { kind: 'json', body }, signal);
  const isDone = answer.outcome === 'ok' || answer.outcome === 'not-found' || answer.mayBeOurs;
  return isDone ? 'committed' : 'conflict';
}

/** The pod an endpoint describes; undefined when it has none. */
function podOf({ metadata, spec }: WorkloadEndpoint): PodRef | undefined {
  const { namespace = 'default' } = metadata;
  if (spec.orchestrator !== 'orch' || spec.pod === undefined) return undefined;
  if (!isObjectName(spec.pod) || !isObjectName(namespace)) return undefined;
  return { collection: { ...PODS, namespace }, name: spec.pod };
}
