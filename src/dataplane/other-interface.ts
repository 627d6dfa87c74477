import { NetplugError } from '../base/errors.ts';
import type { LinkOwner } from './kernel.ts';

/**
 * Refuses to replace a link that is not of an earlier sandbox of the same pod: a name of 48 bits may be that of two, and the
 * other one runs. @throws kernel/interface-exists
 */
export function refuseOtherInterface(hostLinkName: string, holder: LinkOwner | undefined, owner: LinkOwner): void {
  if (holder === undefined) return;
  const isSamePod =
    owner.podMark === undefined ? holder.containerId === owner.containerId : holder.podMark === owner.podMark;
  if (isSamePod && holder.ifName === owner.ifName) return;
  throw new NetplugError(
    'kernel/interface-exists',
    `Cannot make interface "${hostLinkName}" on the host: interface "${holder.ifName}" of container "${holder.containerId}" has that name`,
    {
      hint: 'Delete the pod: the next one of its name gets another interface name',
      facts: { interface: hostLinkName, container: holder.containerId },
    },
  );
}
