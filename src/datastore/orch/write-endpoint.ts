import { NetplugError } from '../../base/errors.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { endpointIdOf, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import type { Change, Outcome, Stored } from '../allocation-store.ts';
import { parseVersion, versionOf } from './block-objects.ts';
import { endpointObject, endpointObjectName, ENDPOINTS } from './endpoint-objects.ts';

/** Number of times that an endpoint is written over what other writers make of it, where the last writer wins. */
const TRIES = 5;

/** Writes the endpoint if it is as the change expects. A write that went unanswered may be in its own way then. @throws resource/invalid when the API refuses it */
export async function putEndpoint(
  api: OrchApi,
  { endpoint, over }: Extract<Change, { kind: 'put-endpoint' }>,
  signal: AbortSignal,
): Promise<Outcome> {
  const name = endpointObjectName(endpointIdOf(endpoint));
  for (let attempt = 0; attempt < TRIES; attempt += 1) {
    const now = over === undefined ? await api.get(ENDPOINTS, name, signal) : undefined;
    const version = over === undefined || over === 'none' ? undefined : parseVersion(over.version);
    const before = now?.outcome === 'ok' ? versionOf(now.value) : version;
    const request = { collection: ENDPOINTS, object: endpointObject(endpoint, before) };
    const answer = await (before === undefined ? api.create(request, signal) : api.replace(request, signal));
    if (answer.outcome === 'ok') return 'committed';
    if (answer.outcome === 'invalid') throw refused(endpoint, answer.message);
    if (over !== undefined) return 'conflict';
  }
  return 'conflict';
}

/** Deletes the endpoint if it is as it was read. @throws resource/invalid when the API refuses it */
export async function deleteEndpoint(
  api: OrchApi,
  { value, version }: Stored<WorkloadEndpoint>,
  signal: AbortSignal,
): Promise<Outcome> {
  const name = endpointObjectName(endpointIdOf(value));
  const answer = await api.delete({ collection: ENDPOINTS, name, preconditions: parseVersion(version) }, signal);
  if (answer.outcome === 'invalid') throw refused(value, answer.message);
  return answer.outcome === 'ok' || answer.outcome === 'not-found' ? 'committed' : 'conflict';
}

function refused({ metadata, spec }: WorkloadEndpoint, why: string): NetplugError {
  const pod = `${metadata.namespace ?? ''}/${spec.pod ?? spec.containerID}`;
  return new NetplugError('resource/invalid', `Cannot write the endpoint of "${pod}": the API refuses it: ${why}`, {
    hint: 'Look for an admission webhook that refuses WorkloadEndpoints',
    facts: { pod },
  });
}
