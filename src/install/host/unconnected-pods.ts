import { isNetplugError } from '../../base/errors.ts';
import { visibleText } from '../../base/visible-text.ts';
import type { Kernel } from '../../dataplane/kernel.ts';
import { type Attachment, interfaceKey } from '../../model/names.ts';
import { listRuntimeRecords, podOf, type RuntimeRecord } from './runtime-records.ts';

const LOOPBACK = 'lo';

/** A pod whose network namespace exists, and that has no interface of netplug although its runtime recorded one. */
export interface UnconnectedPod extends Attachment {
  /** `namespace/name`; undefined when the runtime named no pod. */
  readonly pod: string | undefined;
  readonly podUid: string | undefined;
  readonly netns: string;
}

/**
 * Finds such pods of this machine. Starts from what the runtime has recorded of its living namespaces, because records of netplug may
 * have gone with the interface. Reads files of interfaces without a link only, unless one of them is found. @throws kernel/failed
 */
export async function findUnconnectedPods(
  kernel: Pick<Kernel, 'listHostLinks' | 'assertNetns'>,
  folder: string,
): Promise<readonly UnconnectedPod[]> {
  const owners = kernel.listHostLinks().flatMap(({ owner }) => owner ?? []);
  const linked = new Set(owners.map(interfaceKey));
  const suffixes = new Set(owners.map(({ containerId, ifName }) => `${containerId}-${ifName}`));
  const isOfLink = (name: string): boolean =>
    [...name.matchAll(/-/g)].some(({ index }) => suffixes.has(name.slice(index + 1)));
  const isWanted = (name: string): boolean => !name.endsWith(`-${LOOPBACK}`) && !isOfLink(name);
  const unlinked = (await listRuntimeRecords(folder, isWanted))
    .filter((record) => !linked.has(interfaceKey(record)) && isLiving(kernel, record.netns))
    .map(toPod);
  if (unlinked.length === 0) return [];
  // The next sandbox of a pod takes over the link of the one before, whose namespace may still be there.
  const connected = (await listRuntimeRecords(folder)).filter((record) => linked.has(interfaceKey(record))).map(toPod);
  return unlinked.filter(
    ({ pod, ifName }) => pod === undefined || !connected.some((each) => each.pod === pod && each.ifName === ifName),
  );
}

/** Names the pod in a sentence. */
export function describeUnconnected({ pod, containerId, ifName, netns }: UnconnectedPod): string {
  const who = pod === undefined ? `container "${containerId}"` : `pod "${pod}"`;
  return visibleText(`${who} has no interface "${ifName}", although its network namespace "${netns}" exists`);
}

export const UNCONNECTED_REMEDY =
  'Delete the pod, so that it is created again: nothing else gives it a network. If it is ending, its runtime repeats a DEL that fails: look at its log';

/** The path of a process may lead to the namespace of a later one, so it proves nothing. */
function isLiving(kernel: Pick<Kernel, 'assertNetns'>, path: string): boolean {
  if (path === '' || path.startsWith('/proc/')) return false;
  try {
    kernel.assertNetns(path);
    return true;
  } catch (cause) {
    if (!isNetplugError(cause, 'kernel/netns-invalid')) throw cause;
    return false;
  }
}

function toPod(record: RuntimeRecord): UnconnectedPod {
  const { network, containerId, ifName, netns, cniArgs } = record;
  return { network, containerId, ifName, netns, pod: podOf(record), podUid: new Map(cniArgs).get('K8S_POD_UID') };
}
