import { hash } from 'node:crypto';
import { HOST_LINK_PREFIX } from '../dataplane/kernel.ts';
import type { PodIdentity } from '../ipam/assign.ts';
import type { Attachment } from '../model/names.ts';
import { handleOf } from '../model/names.ts';
import { MAIN_INTERFACE } from '../model/workload-endpoint.ts';
import { type Mac, macFromHash } from '../net/mac.ts';

/**
 * Returns the name of the host side of a pod's link: the prefix and 11 hex digits of SHA-1 over `<namespace>.<pod>`, or
 * over the container id without a pod. Interfaces other than `eth0` append `.<interface>`, so that each link of a pod
 * has a name of its own.
 */
export function hostLinkName(
  pod: Pick<PodIdentity, 'namespace' | 'name'> | undefined,
  { containerId, ifName }: Attachment,
): string {
  const workload = pod === undefined ? containerId : `${pod.namespace}.${pod.name}`;
  const seed = ifName === MAIN_INTERFACE ? workload : `${workload}.${ifName}`;
  return HOST_LINK_PREFIX + hash('sha1', seed).slice(0, 11);
}

/** Returns the MAC address of the pod's interface, which depends on the attachment alone. */
export function podMacOf(attachment: Attachment): Mac {
  return macFromHash(hash('sha256', handleOf(attachment), 'buffer'));
}
