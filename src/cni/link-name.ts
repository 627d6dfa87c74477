import { createHmac, hash } from 'node:crypto';
import { HOST_LINK_PREFIX, type HostLink, type Kernel, type LinkOwner } from '../dataplane/kernel.ts';
import type { PodIdentity } from '../ipam/assign.ts';
import type { Attachment } from '../model/names.ts';
import { handleOf } from '../model/names.ts';
import { type Mac, macFromHash } from '../net/mac.ts';

/** The key of the node, under which it names links. Undefined where only root of the node may know it. */
export type LinkKey = () => Promise<string | undefined>;

/**
 * Returns the name of the host side of a pod's link: the prefix and 12 hex digits, which depend on the pod with its UID, or on
 * the container without a pod, and on the interface. Without the key of the node no one can tell which pods share a name.
 */
export function hostLinkName(
  key: string | undefined,
  pod: PodIdentity | undefined,
  { containerId, ifName }: Attachment,
): string {
  if (key === undefined) return HOST_LINK_PREFIX + '?'.repeat(12);
  const parts = pod === undefined ? [containerId, ifName] : [pod.namespace, pod.name, pod.uid ?? '', ifName];
  return HOST_LINK_PREFIX + createHmac('sha256', key).update(JSON.stringify(parts)).digest('hex').slice(0, 12);
}

/** Returns the name of the link that the attachment has by its alias, or else the name that it gets. */
export async function ownLinkName(
  { kernel, linkKey }: { readonly kernel: Kernel; readonly linkKey: LinkKey },
  { pod, attachment }: { readonly pod: PodIdentity | undefined; readonly attachment: Attachment },
): Promise<string> {
  return findLinkOf(kernel, attachment)?.name ?? hostLinkName(await linkKey(), pod, attachment);
}

/** Returns the link whose alias names the attachment, under whatever name an earlier release or another key gave it. */
export function findLinkOf(kernel: Kernel, { containerId, ifName }: Attachment): HostLink | undefined {
  return kernel.listHostLinks().find(({ owner }) => owner?.containerId === containerId && owner.ifName === ifName);
}

/** Returns the owner of a link as its alias names it. */
export function linkOwner(attachment: Attachment, pod: PodIdentity | undefined): LinkOwner {
  return { ...attachment, ...(pod === undefined ? {} : { podMark: podMark(pod) }) };
}

/** Returns what stands for a pod with its UID in the alias of its link. */
export function podMark({ namespace, name, uid }: PodIdentity): string {
  return hash('sha256', JSON.stringify([namespace, name, uid ?? ''])).slice(0, 32);
}

/** Returns the name that earlier builds gave the link of a pod, which its alias does not name. Other pods may have the same. */
export function earlierLinkName({ namespace, name }: Pick<PodIdentity, 'namespace' | 'name'>): string {
  return HOST_LINK_PREFIX + hash('sha1', `${namespace}.${name}`).slice(0, 11);
}

/** Returns the MAC address of the pod's interface, which depends on the attachment alone. */
export function podMacOf(attachment: Attachment): Mac {
  return macFromHash(hash('sha256', handleOf(attachment), 'buffer'));
}
