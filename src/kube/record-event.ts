import { visibleText } from '../base/visible-text.ts';
import type { PodFacts } from '../model/pod.ts';
import type { OrchApi } from './orch-api.ts';

const LONGEST_NAME = 253;
const EVENTS = { group: '', version: 'v1', plural: 'events' } as const;

/** An object of the API, or of netplug, that an event is about. */
export interface EventSubject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  readonly uid?: string;
}

export interface EventText {
  readonly reason:
    | 'NetplugAnnotation'
    | 'NetplugPolicyDenied'
    | 'NetplugInterfaceMissing'
    | 'NetplugAddressesLeaked'
    | 'NetplugAddressesReleased'
    | 'NetplugPoolNearlyFull'
    | 'NetplugFieldsTakenOver'
    | 'NetplugFieldsRestored';
  readonly message: string;
  readonly at: string;
  readonly id: string;
}

/** Writes a warning that `kubectl describe pod` shows. @throws store/unavailable, store/refused */
export async function recordWarning(
  api: OrchApi,
  { pod, ...text }: EventText & { readonly pod: Pick<PodFacts, 'namespace' | 'name' | 'uid'> },
  signal: AbortSignal,
): Promise<void> {
  const { namespace, name, uid } = pod;
  await recordEvent(api, { about: { apiVersion: 'v1', kind: 'Pod', namespace, name, uid }, ...text }, signal);
}

/** Writes a warning about an object. @throws store/unavailable, store/refused */
export async function recordEvent(
  api: OrchApi,
  { about, reason, message, at, id }: EventText & { readonly about: EventSubject },
  signal: AbortSignal,
): Promise<void> {
  const { namespace = 'default' } = about;
  const event = {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: eventName(about.name, id), namespace },
    involvedObject: about,
    type: 'Warning',
    reason,
    message: visibleText(message),
    source: { component: 'netplug' },
    firstTimestamp: at,
    lastTimestamp: at,
    count: 1,
  };
  await api.create({ collection: { ...EVENTS, namespace }, object: event }, signal);
}

/** Returns the names of object and event, joined to a DNS subdomain (RFC 1123) of at most 253 characters. */
export function eventName(object: string, id: string): string {
  return `${object.slice(0, LONGEST_NAME - id.length - 1).replace(/[.-]+$/, '')}.${id}`;
}
