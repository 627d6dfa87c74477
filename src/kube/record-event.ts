import type { PodFacts } from '../model/pod.ts';
import type { OrchApi } from './orch-api.ts';

const LONGEST_NAME = 253;
const EVENTS = { group: '', version: 'v1', plural: 'events' } as const;

/** Writes a warning that `kubectl describe pod` shows. @throws store/unavailable, store/refused */
export async function recordWarning(
  api: OrchApi,
  {
    pod,
    reason,
    message,
    at,
    id,
  }: {
    pod: Pick<PodFacts, 'namespace' | 'name' | 'uid'>;
    reason: 'NetplugAnnotation' | 'NetplugPolicyDenied';
    message: string;
    at: string;
    id: string;
  },
  signal: AbortSignal,
): Promise<void> {
  const { namespace, name, uid } = pod;
  const event = {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: eventName(name, id), namespace },
    involvedObject: { apiVersion: 'v1', kind: 'Pod', namespace, name, uid },
    type: 'Warning',
    reason,
    message,
    source: { component: 'netplug' },
    firstTimestamp: at,
    lastTimestamp: at,
    count: 1,
  };
  await api.create({ collection: { ...EVENTS, namespace }, object: event }, signal);
}

/** Returns the names of pod and event, joined to a DNS subdomain (RFC 1123) of at most 253 characters. */
export function eventName(pod: string, id: string): string {
  return `${pod.slice(0, LONGEST_NAME - id.length - 1).replace(/[.-]+$/, '')}.${id}`;
}
