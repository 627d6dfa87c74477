import { SERVER_LABEL } from '../../stream/server-lease.ts';
import { SIDECAR } from '../../model/declared-sidecar.ts';
import { TYPHA } from '../../model/typha.ts';
import { type ImageDigests, RELEASE_DIGESTS } from '../../base/image-digests.ts';
import { VERSION } from '../../base/version.ts';
import { type ObjectReference, referenceTo } from '../../kube/objects/reference.ts';
/** The namespace of every program of netplug, and of their accounts. */
export const SYSTEM_NAMESPACE = 'netplug-system';
/** The release of a definition: an older program leaves it alone. Other tools also set the common label of versions. */
export const RELEASE_LABEL = 'netplug.io/release';

/** Names of the objects in a cluster. Selectors consist of them and cannot change: Kubernetes refuses another selector. */
export const AGENT_SET = 'netplug-node';
export const BIRD_SET = 'netplug-bird';

/** Reports whether the pods of a workload follow its template. Those of BIRD keep their sessions until they are deleted. */
export function hasFollowingPods(workload: string): boolean {
  return workload !== BIRD_SET;
}

/** The label of the Leases in which servers say where they are. */
export const TYPHA_LEASES = { label: SERVER_LABEL, value: TYPHA } as const;
export const TYPHA_PORTS = { clients: 5473, health: 9093 } as const;
/** Proves to a server which node an agent is of. Kubernetes renews the file `token` of the folder. */
export const TYPHA_TOKEN = {
  volume: 'typha-token',
  folder: '/var/run/secrets/netplug-typha',
  audience: TYPHA,
  seconds: 3600,
} as const;

export const OPERATOR = 'netplug-operator';
/** Exists only while an installation is removed. */
export const CLEANUP_SET = 'netplug-cleanup';
/** ConfigMap of what the operator has created: group, kind, name and uid of each object. */
export const INVENTORY = 'netplug-inventory';
export const CONFIG_MAP = 'netplug-config';
/** Where the agent has that ConfigMap, whose files Kubernetes renews. */
export const CONFIG_DIR = '/etc/netplug/config';
/** Key of that ConfigMap which says that the admission policies are left out on purpose. */
export const ADMISSION_KEY = 'admissionPolicies';
/** Variables of the agent with folders of the runtime, and keys of the ConfigMap that has them when no agent is there any more. */
export const FOLDER_VARIABLES = { binDir: 'NETPLUG_CNI_BIN_DIR', confDir: 'NETPLUG_CNI_CONF_DIR' } as const;
/** Key of that ConfigMap with the name of the Installation that says what is installed; missing where none does. */
export const INSTALLATION_KEY = 'installation';
/** Certificates of etcd: the keys `ca.crt`, `tls.crt` and `tls.key`. */
export const KV_CERTIFICATES = 'netplug-kv-certificates';
/** Optional; names another address of the API server than the one that pods are given. */
export const SERVICES_ENDPOINT = 'kubernetes-services-endpoint';

/** Returns the reference to an object in the namespace of netplug. */
export function systemObject(kind: string, name: string): ObjectReference {
  return referenceTo(kind, { name, namespace: SYSTEM_NAMESPACE });
}

/** Ports of the health servers, on the loopback address of the node. */
export const HEALTH_PORTS = { agent: 9098, controllers: 9094, operator: 9095 } as const;

/** Where the images of the project are. */
export const DEFAULT_REGISTRY = 'netplug.io';

export const TOOLS_IMAGE = 'netplug';

export interface ImageNames {
  readonly node: string;
  readonly tools: string;
  readonly sidecar: string;
}

/** Returns the names of a release's images in a registry, which may have a path. A mirror has the digests of the project. */
export function imageNames(
  release: string,
  registry: string = DEFAULT_REGISTRY,
  digests: ImageDigests = digestsOf(release),
): ImageNames {
  const root = registry.replace(/\/$/, '');
  const nameOf = (image: string): string => `${root}/${image}:${release}${digestSuffix(digests, image)}`;
  return { node: nameOf('netplug-node'), tools: nameOf(TOOLS_IMAGE), sidecar: nameOf(SIDECAR) };
}

/** Returns the digests of a release that this program was built with; none of another release. */
export function digestsOf(release: string): ImageDigests {
  return release === VERSION ? RELEASE_DIGESTS : new Map<string, string>();
}

/** Returns what follows the tag of an image; empty without a digest. */
export function digestSuffix(digests: ImageDigests, image: string): string {
  const digest = digests.get(image);
  return digest === undefined ? '' : `@${digest}`;
}

/** Returns the registry of an image's name; undefined for that of the project. */
export function registryIn(image: string): string | undefined {
  const registry = image.replace(/\/[^/]*$/, '');
  return registry === image || registry === DEFAULT_REGISTRY ? undefined : registry;
}
