import type { Kernel } from '../dataplane/kernel.ts';
import { isLinkOf } from '../dataplane/link-alias.ts';
import { type Attachment, interfaceKey } from '../model/names.ts';
import type { AddressSource, IsKept } from './address-source.ts';
import type { CniCall, CniPorts } from './call.ts';
import { withdrawLeft } from './pod-isolation.ts';

/**
 * Removes the links, addresses and endpoints of all attachments of this network on this node that the call does not list as valid
 * (CNI 1.1.0, GC). The caller has asked `isGcWanted`. Continues after a failure.
 */
export async function gc(ports: CniPorts, source: AddressSource, call: CniCall): Promise<void> {
  const isKept = isKeptOf(call);
  const failures: unknown[] = [];
  const isRemoved = (attachment: Attachment): boolean =>
    attachment.network === call.attachment.network && !isKept(attachment);
  // The routes to the addresses go with the links.
  const used = ports.isolation.isOn ? await ports.kernel.listPodAddresses() : [];
  const links = await removeLinks(ports.kernel, { call, isKept, failures });
  if (!(await ports.isolation.collect(isRemoved, call.signal))) {
    const addresses = used.filter(({ owner }) => isRemoved(owner)).map(({ address }) => address);
    await withdrawLeft(ports, { interfaces: links, addresses }, call.signal);
  }
  const addresses = await collect(ports, source, { call, isKept, isRemoved }).catch((cause: unknown) => {
    failures.push(cause);
    return 0;
  });
  ports.log.info('attachments released', {
    network: call.attachment.network,
    node: call.node,
    links: links.length,
    addresses,
    ...ports.stopwatch.facts(),
  });
  if (failures.length === 1) throw failures[0];
  if (failures.length > 1) throw new AggregateError(failures, 'Cannot release everything');
}

/** Releases addresses first, then removes records: a delegated IPAM plugin needs the record to release by name. */
async function collect(
  { attachments }: CniPorts,
  source: AddressSource,
  { call, isKept, isRemoved }: { call: CniCall; isKept: IsKept; isRemoved: (attachment: Attachment) => boolean },
): Promise<number> {
  const addresses = await source.collect(call, isKept);
  const { records } = await attachments.list();
  for (const { attachment } of records) if (isRemoved(attachment)) await attachments.remove(attachment);
  return addresses;
}

async function removeLinks(
  kernel: Kernel,
  { call, isKept, failures }: { call: CniCall; isKept: IsKept; failures: unknown[] },
): Promise<readonly string[]> {
  const removed: string[] = [];
  for (const { name, owner } of kernel.listHostLinks()) {
    if (owner === undefined || !isLinkOf(owner, call.attachment.network) || isKept(owner)) continue;
    try {
      if (await kernel.remove(name, owner)) removed.push(name);
    } catch (cause) {
      failures.push(cause);
    }
  }
  return removed;
}

/**
 * Reports whether GC may release anything; otherwise logs why not. Without a list of valid attachments, and where the configuration
 * list of the network sets `disableGC`, it may not: other runtimes may use the network, too.
 */
export function isGcWanted(
  { log, readInstalledList }: CniPorts,
  { config, attachment: { network } }: CniCall,
): boolean {
  const { runtime } = config;
  const isDisabled = runtime.disablesGc || readInstalledList(network)?.disablesGc === true;
  if (runtime.validAttachments !== undefined && !isDisabled) return true;
  if (isDisabled) log.info('garbage collection skipped', { network, reason: 'its configuration sets disableGC' });
  else {
    const reason = 'the runtime passed no list of valid attachments';
    log.warning('garbage collection skipped', { network, reason });
  }
  return false;
}

/** Returns the filter for the attachments that the call lists as valid. */
export function isKeptOf({ config }: CniCall): IsKept {
  const kept = new Set((config.runtime.validAttachments ?? []).map(interfaceKey));
  return (attachment) => kept.has(interfaceKey(attachment));
}
