import * as v from 'valibot';
import { sha256Of } from '../../base/sha256.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { NodeName } from '../../model/names.ts';
import { API_VERSION } from '../../model/resource.ts';
import { type EndpointId, endpointIdOf, endpointKey, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import type { Stored } from '../allocation-store.ts';
import { decodeEndpoint } from '../stored-resource.ts';
import { type BlockVersion, formatVersion, versionOf } from './block-objects.ts';
import { NODE_LABEL, nodeLabelValue } from './names.ts';
import type { Unreadable } from '../unreadable.ts';
import { unreadableObject } from './unreadable.ts';

/**
 * Endpoints as custom resources of the cluster: the agent and the plugin of their node write them. Nothing in a namespace says
 * what they say, because users may write there.
 */
export const ENDPOINTS = { group: 'netplug.io', version: 'v3', plural: 'workloadendpoints' } as const;

export interface EndpointObject {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: 'WorkloadEndpoint';
  readonly metadata: {
    readonly name: string;
    readonly labels: Readonly<Record<string, string>>;
  } & Partial<BlockVersion>;
  readonly spec: object;
}

const Named = v.looseObject({ name: v.string(), namespace: v.string(), labels: v.exactOptional(v.unknown()) });

/** Returns the name of the object. The parts of an endpoint's own name are of any length. */
export function endpointObjectName(id: EndpointId): string {
  return sha256Of(endpointKey(id)).slice(0, 40);
}

/** Of all nodes. */
export const ALL_ENDPOINTS = { isCached: true } as const;

/** Selects the endpoints of a node. */
export function endpointsOf(node: NodeName): { readonly labelSelector: string } {
  return { labelSelector: `${NODE_LABEL}=${nodeLabelValue(node)}` };
}

export function endpointObject(endpoint: WorkloadEndpoint, version?: BlockVersion): EndpointObject {
  const { namespace, name } = endpointIdOf(endpoint);
  const { labels } = endpoint.metadata;
  // Node names of endpoints are those under which agents registered.
  const node = endpoint.spec.node as NodeName;
  return {
    apiVersion: API_VERSION,
    kind: 'WorkloadEndpoint',
    metadata: {
      name: endpointObjectName(endpointIdOf(endpoint)),
      labels: { [NODE_LABEL]: nodeLabelValue(node) },
      ...version,
    },
    spec: { name, namespace, ...(labels === undefined ? {} : { labels }), ...endpoint.spec },
  };
}

export function readEndpoint(object: ApiObject): Stored<WorkloadEndpoint> | Unreadable {
  const unreadable = (why: string): Unreadable => unreadableObject('WorkloadEndpoint', object.metadata.name, why);
  const named = v.safeParse(Named, object['spec']);
  if (!named.success) return unreadable(named.issues[0].message);
  const { name, namespace, labels, ...spec } = named.output;
  const metadata = { name, namespace, ...(labels === undefined ? {} : { labels }) };
  const endpoint = decodeEndpoint({ apiVersion: API_VERSION, kind: 'WorkloadEndpoint', metadata, spec });
  if (typeof endpoint === 'string') return unreadable(endpoint);
  if (endpointObjectName(endpointIdOf(endpoint)) !== object.metadata.name)
    return unreadable('its node, namespace or name belongs elsewhere');
  return { value: endpoint, version: formatVersion(versionOf(object)) };
}
