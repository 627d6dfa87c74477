import { NetplugError } from '../../base/errors.ts';
import type { WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { type Collection, isObjectName, PODS } from '../../kube/paths.ts';
import type { Stored } from '../allocation-store.ts';
import { CONTAINER_ID, annotationKey, isMainInterface, packEndpoint, POD_IPS, readEndpoint } from './pod-endpoints.ts';
import { Unreadable } from './unreadable.ts';

/** How often a note that changes under the hands of its remover is read again. */
const CLEAR_TRIES = 3;

/** The status takes annotations as well, and the right to it is not the right to the whole pod. */
interface PodRef {
  readonly collection: Collection;
  readonly name: string;
  readonly subresource: 'status';
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
    [annotationKey(ifName)]: packEndpoint(endpoint, id),
    ...(isMainInterface(ifName) ? { [POD_IPS]: ipNetworks.join(','), [CONTAINER_ID]: containerID } : {}),
  };
  // With the uid in it the patch is refused for a pod of the same name that was made since.
  const body = { metadata: { ...(uid === undefined ? {} : { uid }), annotations } };
  const answer = await api.patch(pod, { kind: 'merge', body }, signal);
  if (answer.outcome === 'ok' || answer.outcome === 'not-found') return;
  if (uid !== undefined && /\buid\b/i.test(answer.message)) return;
  throw notTaken('note the address on', endpoint, answer.message);
}

/**
 * Removes the note as long as it describes the same attachment, whatever else was changed in it: anyone who may change
 * the pod may change its annotations. A pod that is gone, or the note of a newer attachment, needs nothing.
 * @throws resource/invalid when the API does not take the change, or the note keeps changing
 */
export async function clearEndpoint(
  api: OrchApi,
  { value, version }: Stored<WorkloadEndpoint>,
  signal: AbortSignal,
): Promise<void> {
  const pod = podOf(value);
  if (pod === undefined) return;
  let text = version;
  for (let attempt = 0; attempt < CLEAR_TRIES; attempt += 1) {
    const answer = await api.patch(pod, { kind: 'json', body: clearingSteps(value, text) }, signal);
    if (answer.outcome === 'ok' || answer.outcome === 'not-found') return;
    const now = await readNote(api, value, signal);
    if (now === undefined) return;
    if (now === text) throw notTaken('remove the note of the address from', value, answer.message);
    text = now;
  }
  throw notTaken('remove the note of the address from', value, 'it keeps being changed');
}

/** Each step tests what it changes, so that neither a newer attachment nor another pod loses its own. */
function clearingSteps({ spec }: WorkloadEndpoint, text: string): readonly unknown[] {
  const { podUID, endpoint: ifName } = spec;
  const at = (key: string): string => `/metadata/annotations/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  return [
    ...(podUID === undefined ? [] : [{ op: 'test', path: '/metadata/uid', value: podUID }]),
    { op: 'test', path: at(annotationKey(ifName)), value: text },
    { op: 'remove', path: at(annotationKey(ifName)) },
    // Blank rather than gone: a pod that is ending must not seem to have the address its status still tells.
    ...(isMainInterface(ifName) ? [{ op: 'add', path: at(POD_IPS), value: '' }] : []),
  ];
}

/** The note as it is now; undefined when there is none, or when it is that of another pod or attachment. */
async function readNote(api: OrchApi, endpoint: WorkloadEndpoint, signal: AbortSignal): Promise<string | undefined> {
  const { spec } = endpoint;
  const pod = podOf(endpoint);
  const answer = pod === undefined ? undefined : await api.get(pod.collection, pod.name, signal);
  if (answer?.outcome !== 'ok') return undefined;
  if (spec.podUID !== undefined && answer.value.metadata.uid !== spec.podUID) return undefined;
  const key = annotationKey(spec.endpoint);
  const text = answer.value.metadata.annotations?.[key];
  const now = text === undefined ? undefined : readEndpoint(answer.value, key, text);
  if (now === undefined || now instanceof Unreadable) return undefined;
  const isSame = now.value.spec.containerID === spec.containerID && now.value.spec.network === spec.network;
  return isSame ? now.version : undefined;
}

function notTaken(what: string, { metadata, spec }: WorkloadEndpoint, why: string): NetplugError {
  const pod = `${metadata.namespace ?? ''}/${spec.pod ?? ''}`;
  return new NetplugError('resource/invalid', `Cannot ${what} pod "${pod}": ${why}`, {
    hint: 'Look for an admission webhook that refuses it, or for annotations near the limit of 256 KiB',
    facts: { pod },
  });
}

/** The pod an endpoint describes; undefined when it has none. */
function podOf({ metadata, spec }: WorkloadEndpoint): PodRef | undefined {
  const { namespace = 'default' } = metadata;
  if (spec.orchestrator !== 'orch' || spec.pod === undefined) return undefined;
  if (!isObjectName(spec.pod) || !isObjectName(namespace)) return undefined;
  return { collection: { ...PODS, namespace }, name: spec.pod, subresource: 'status' };
}
