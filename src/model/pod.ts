import type { DeclaredSidecar } from './declared-sidecar.ts';

/** The fields of a Pod and its Namespace that netplug uses. */
export interface PodFacts {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Undefined until the orchestrator has chosen one. */
  readonly nodeName?: string | undefined;
  /** Annotations of the pod's namespace. */
  readonly namespaceAnnotations: Readonly<Record<string, string>>;
  readonly serviceAccount: string | undefined;
  /** Ports of containers and sidecars that have a name or a host port. */
  readonly ports: readonly PodPort[];
  readonly sidecar?: DeclaredSidecar | undefined;
}

/**
 * Reports whether the UID is one that a kubelet makes for a static pod. Such a pod runs without a mirror pod in the API when its
 * namespace is missing or admission refuses it. UIDs of the API have dashes.
 */
export function isStaticPodUid(uid: string | undefined): boolean {
  return uid !== undefined && /^[0-9a-f]{32}$/.test(uid);
}

/** Ports of a pod that count for rules. All tenants share the sets of named ports, and a pod may declare any number of them. */
export const MOST_POD_PORTS = 256;
/** Of one name: containers of a pod may share it. */
const MOST_OF_NAME = 16;

/** Returns the ports that count, of all that a pod declares. */
export function countedPorts(declared: readonly PodPort[]): readonly PodPort[] {
  const counts = new Map<string, number>();
  return declared.slice(0, MOST_POD_PORTS).filter(({ name, hostPort }) => {
    if (name === undefined) return true;
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    return count <= MOST_OF_NAME || hostPort !== undefined;
  });
}

export interface PodPort {
  readonly name?: string;
  readonly protocol: string;
  readonly port: number;
  readonly hostPort?: number;
  readonly hostIP?: string;
}
