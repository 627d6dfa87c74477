import type { AttachmentRecords } from '../cni/attachment-records.ts';
import type { Kernel } from '../dataplane/kernel.ts';
import type { AddressInUse } from '../ipam/plan-assertion.ts';
import { interfaceKey } from '../model/names.ts';

/**
 * Returns a function that lists the addresses of netplug's address manager that the kernel routes to pods. Addresses of
 * another manager, or of none, may also lie in a pool; they are excluded by the node's records of attachments.
 */
export function addressesInUse(
  kernel: Kernel,
  attachments: Pick<AttachmentRecords, 'list'>,
): () => Promise<readonly AddressInUse[]> {
  return async () => {
    const living = await kernel.listPodAddresses();
    if (living.length === 0) return [];
    const { records } = await attachments.list();
    const others = new Set(
      records.flatMap(({ attachment, addressManager }) =>
        addressManager === 'netplug-ipam' ? [] : interfaceKey(attachment),
      ),
    );
    return living.filter(({ owner }) => !others.has(interfaceKey(owner)));
  };
}
