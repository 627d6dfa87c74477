/** One kind of object as it stands in URLs; the core group is the empty text. */
export interface Collection {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly namespace?: string;
}

export const PODS = { group: '', version: 'v1', plural: 'pods' } as const;
const UNFINISHED = 'status.phase!=Succeeded,status.phase!=Failed';
/** Selects the pods that have not ended. */
export const UNFINISHED_PODS = { fieldSelector: UNFINISHED } as const;
/** Selects the pods that a kubelet runs, or will run. Users make any number of others, which cost them nothing. */
export const RUN_PODS = { fieldSelector: `spec.nodeName!=,${UNFINISHED}`, isCached: true } as const;
/** Selects the pods that the kubelet of a node runs, or will run. */
export function podsOf(node: string): { readonly fieldSelector: string; readonly isCached: true } {
  return { fieldSelector: `spec.nodeName=${node},${UNFINISHED}`, isCached: true };
}
export const NAMESPACES = { group: '', version: 'v1', plural: 'namespaces' } as const;
/** Of all objects of a kind, which every agent follows, the metadata. */
export const ALL_NAMES = { only: 'names', isCached: true } as const;
export const SERVICE_ACCOUNTS = { group: '', version: 'v1', plural: 'serviceaccounts' } as const;
export const KUBERNETES_POLICIES = { group: 'networking.k8s.io', version: 'v1', plural: 'networkpolicies' } as const;
export const ENDPOINT_SLICES = { group: 'discovery.k8s.io', version: 'v1', plural: 'endpointslices' } as const;
export const SERVICES = { group: '', version: 'v1', plural: 'services' } as const;
export const LEASES = { group: 'coordination.k8s.io', version: 'v1', plural: 'leases' } as const;
export const NODES = { group: '', version: 'v1', plural: 'nodes' } as const;

export function collectionPath({ group, version, plural, namespace }: Collection): string {
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  return `${root}${namespace === undefined ? '' : `/namespaces/${encodeURIComponent(namespace)}`}/${plural}`;
}

export function objectPath(collection: Collection, name: string): string {
  return `${collectionPath(collection)}/${encodeURIComponent(name)}`;
}

/**
 * Whether an object can have that name at all. Others are never put into a URL: the API decodes `%2F` before it splits
 * the path, so that `x/status` would name a part of another object.
 */
export function isObjectName(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && !/[/%\0]/.test(name);
}
