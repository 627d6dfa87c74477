import { NetplugError } from '../base/errors.ts';
import type { LinkOwner } from './kernel.ts';

/**
 * Refuses to replace a link that is of another interface, and so not of an earlier sandbox of the same pod: pods "web" and
 * "web.net1" give their interfaces "net1" and "eth0" the same name on the host. @throws kernel/interface-exists
 */
export function refuseOtherInterface(hostLinkName: string, holder: LinkOwner | undefined, owner: LinkOwner): void {
  if (holder === undefined || holder.ifName === owner.ifName) return;
  throw new NetplugError(
    'kernel/interface-exists',
    `Cannot make interface "${hostLinkName}" on the host: interface "${holder.ifName}" of container "${holder.containerId}" has that name`,
    {
      hint: 'Rename the pod, or give this attachment another interface name',
      facts: { interface: hostLinkName, container: holder.containerId },
    },
  );
}
