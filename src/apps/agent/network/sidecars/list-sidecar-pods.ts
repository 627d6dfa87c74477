import type { AttachmentRecords } from '../../../../cni/attachment-records.ts';
import type { HostLink } from '../../../../dataplane/kernel.ts';
import { handleOf, interfaceKey } from '../../../../model/names.ts';
import type { SidecarPod } from './served-sidecar.ts';
import type { ListedSidecars } from './serve-sidecars.ts';

/** Lists the pods whose ADD recorded a sidecar, and that have a link. @throws cni/record-failed */
export async function listSidecarPods({
  attachments,
  listLinks,
}: {
  readonly attachments: Pick<AttachmentRecords, 'list'>;
  /** Lists the links of pods, whose aliases only root can write. */
  readonly listLinks: () => readonly HostLink[];
}): Promise<ListedSidecars> {
  const { records, problems } = await attachments.list();
  const isComplete = problems.length === 0;
  const declaring = records.filter(({ sidecar }) => sidecar !== undefined);
  const links = listLinks();
  const attached = new Set(links.map(({ name }) => name));
  if (declaring.length === 0) return { pods: [], isComplete, attached };
  const linkOf = new Map(
    links.flatMap(({ name, owner }) => (owner === undefined ? [] : [[interfaceKey(owner), name]])),
  );
  const pods = declaring.flatMap((record): SidecarPod[] => {
    const { attachment, pod, sidecar, addresses } = record;
    const linkName = linkOf.get(interfaceKey(attachment));
    if (pod === undefined || sidecar === undefined || linkName === undefined) return [];
    return [{ handle: handleOf(attachment), pod, ifName: attachment.ifName, linkName, addresses, declared: sidecar }];
  });
  return { pods, isComplete, attached };
}
