import { ownValue } from '../../base/own-value.ts';
import { NetplugError } from '../../base/errors.ts';
import type { WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { type Collection, isObjectName, PODS } from '../../kube/paths.ts';
import type { Stored } from '../allocation-store.ts';
import { CONTAINER_ID, POD_IPS } from '../../model/notes.ts';
import { annotationKey, isMainInterface, packEndpoint, readEndpoint } from './pod-endpoints.ts';
import { Unreadable } from './unreadable.ts';

/** Number of times that a note that changes under the hands of its remover is read again. */
const CLEAR_TRIES = 3;

/** A patch of the status can change annotations, and needs no right to the whole pod. */
interface PodRef {
  readonly collection: Collection;
  readonly name: string;
  readonly subresource: 'status';
}

/**
 * Writes the endpoint to its pod in one request. Writes nothing for a deleted or recreated pod, nor for an endpoint
 * without a pod: blocks and kernel suffice then.
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
  // The uid makes the API server refuse the patch for a newer pod of the same name.
  const body = { metadata: { ...(uid === undefined ? {} : { uid }), annotations } };
  const answer = await api.patch(pod, { kind: 'merge', body }, signal);
  if (answer.outcome === 'ok' || answer.outcome === 'not-found') return;
  if (uid !== undefined && /\buid\b/i.test(answer.message)) return;
  throw notTaken('note the address on', endpoint, answer.message);
}

/**
 * Removes the annotation while it describes the same attachment, also when a user changed the rest of it. Does nothing
 * for a deleted pod or the annotation of a newer attachment.
 * @throws resource/invalid when the API does not take the change, or the annotation keeps changing
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

/** Each operation tests the value that it changes, so that a newer attachment or another pod keeps its own. */
function clearingSteps({ spec }: WorkloadEndpoint, text: string): readonly unknown[] {
  const { podUID, endpoint: ifName } = spec;
  const at = (key: string): string => `/metadata/annotations/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  return [
    ...(podUID === undefined ? [] : [{ op: 'test', path: '/metadata/uid', value: podUID }]),
    { op: 'test', path: at(annotationKey(ifName)), value: text },
    { op: 'remove', path: at(annotationKey(ifName)) },
    // Empty instead of absent: policy must not use the address in the status of a terminating pod.
    ...(isMainInterface(ifName) ? [{ op: 'add', path: at(POD_IPS), value: '' }] : []),
  ];
}

/** Returns the current annotation; undefined when there is none, or it belongs to another pod or attachment. */
async function readNote(api: OrchApi, endpoint: WorkloadEndpoint, signal: AbortSignal): Promise<string | undefined> {
  const { spec } = endpoint;
  const pod = podOf(endpoint);
  const answer = pod === undefined ? undefined : await api.get(pod.collection, pod.name, signal);
  if (answer?.outcome !== 'ok') return undefined;
  if (spec.podUID !== undefined && answer.value.metadata.uid !== spec.podUID) return undefined;
  const key = annotationKey(spec.endpoint);
  const text = ownValue(answer.value.metadata.annotations, key);
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
