import { ownValue } from '../base/own-value.ts';
import { MESH_ANNOTATIONS } from './declared-sidecar.ts';

/** Annotations of pods and namespaces by which users ask for addresses. */
export const ANNOTATIONS = {
  pools: { 4: 'cni.netplug/ipv4pools', 6: 'cni.netplug/ipv6pools' },
  ipAddrs: 'cni.netplug/ipAddrs',
  ipAddrsNoIpam: 'cni.netplug/ipAddrsNoIpam',
  floatingIPs: 'cni.netplug/floatingIPs',
} as const;

export const BANDWIDTH_ANNOTATIONS = { ingress: 'orch/ingress-bandwidth', egress: 'orch/egress-bandwidth' } as const;

/** The runtime applies these, in place of those of netplug. */
export const RUNTIME_BANDWIDTH_ANNOTATIONS = {
  ingress: 'kubernetes.io/ingress-bandwidth',
  egress: 'kubernetes.io/egress-bandwidth',
} as const;

/** Set by a kubelet on the pod that stands for a static pod. */
export const MIRROR_ANNOTATION = 'kubernetes.io/config.mirror';

const READ: readonly string[] = [
  ...Object.values(ANNOTATIONS.pools),
  ANNOTATIONS.ipAddrs,
  ANNOTATIONS.ipAddrsNoIpam,
  ANNOTATIONS.floatingIPs,
  ...Object.values(BANDWIDTH_ANNOTATIONS),
  ...Object.values(RUNTIME_BANDWIDTH_ANNOTATIONS),
  MIRROR_ANNOTATION,
  ...Object.values(MESH_ANNOTATIONS),
];
/** More than any list of pools or addresses needs. */
const LONGEST = 4096;

/**
 * Returns the annotations that netplug reads. Users write the others, and as much of them as the API takes. A value that is
 * too long is cut, which makes it invalid: a call must not take it for one that is missing.
 */
export function readAnnotations(
  annotations: Readonly<Record<string, string>> | null | undefined,
): Readonly<Record<string, string>> {
  if (annotations === undefined || annotations === null) return NONE;
  const read = READ.filter((key) => Object.hasOwn(annotations, key));
  if (read.length === 0) return NONE;
  return Object.fromEntries(read.map((key) => [key, (ownValue(annotations, key) ?? '').slice(0, LONGEST)]));
}

/** Shared by all objects without such annotations. */
const NONE: Readonly<Record<string, string>> = {};
