import { createHash } from 'node:crypto';
import { HOST_LINK_PREFIX } from '../dataplane/kernel.ts';
import type { PodIdentity } from '../ipam/assign.ts';
import type { Attachment } from '../model/names.ts';
import { handleOf } from '../model/names.ts';
import { type Mac, macFromHash } from '../net/mac.ts';

/**
 * Name of the host side of a pod's link: the prefix and 11 hex digits of SHA-1 over `<namespace>.<pod>`, or over the
 * container id when no pod is known. Interfaces other than `eth0` add `.<interface>`, so that two links of one pod
 * never share a name.
 */
export function hostLinkName(
  pod: Pick<PodIdentity, 'namespace' | 'name'> | undefined,
  { containerId, ifName }: Attachment,
): string {
  const workload = pod === undefined ? containerId : `${pod.namespace}.${pod.name}`;
  const seed = ifName === 'eth0' ? workload : `${workload}.${ifName}`;
  return HOST_LINK_PREFIX + createHash('sha1').update(seed).digest('hex').slice(0, 11);
}

/** The pod's hardware address: the same for every try of one attachment. */
export function podMacOf(attachment: Attachment): Mac {
  return macFromHash(createHash('sha256').update(handleOf(attachment)).digest());
}
