import type { AttachmentRecords } from '../../../../cni/attachment-records.ts';
import { handleOf, interfaceKey } from '../../../../model/names.ts';
import type { ListedSidecars, SidecarPod } from './serve-sidecars.ts';

/** Lists the pods whose ADD recorded a sidecar, and that have a link. @throws cni/record-failed */
export async function listSidecarPods({
  attachments,
  listAttached,
}: {
  readonly attachments: Pick<AttachmentRecords, 'list'>;
  /** `<containerId>/<ifName>` of every pod link the kernel has. */
  readonly listAttached: () => ReadonlySet<string>;
}): Promise<ListedSidecars> {
  const { records, problems } = await attachments.list();
  const isComplete = problems.length === 0;
  const declaring = records.filter(({ sidecar }) => sidecar !== undefined);
  if (declaring.length === 0) return { pods: [], isComplete };
  const attached = listAttached();
  const pods = declaring.flatMap((record): SidecarPod[] => {
    const { attachment, pod, sidecar } = record;
    if (pod === undefined || sidecar === undefined || !attached.has(interfaceKey(attachment))) return [];
    return [{ handle: handleOf(attachment), pod, ifName: attachment.ifName, declared: sidecar }];
  });
  return { pods, isComplete };
}
