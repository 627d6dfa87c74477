import type { Kernel } from '../dataplane/kernel.ts';
import { isLinkOf } from '../dataplane/link-alias.ts';
import { interfaceKey } from '../model/names.ts';
import type { AddressSource, Keeps } from './address-source.ts';
import type { CniCall, CniPorts } from './call.ts';

/**
 * Releases what attachments of this network on this node hold that the runtime does not list (CNI 1.1.0, GC): links,
 * addresses, endpoints. Without a list nothing is released; with an empty one, everything. Goes on after errors.
 */
export async function gc(ports: CniPorts, source: AddressSource, call: CniCall): Promise<void> {
  const keeps = keepsOf(ports, call);
  if (keeps === undefined) return;
  const failures: unknown[] = [];
  const links = await removeLinks(ports.kernel, { call, keeps, failures });
  const addresses = await collect(ports, source, { call, keeps }).catch((cause: unknown) => {
    failures.push(cause);
    return 0;
  });
  ports.log.info('attachments collected', {
    network: call.attachment.network,
    node: call.node,
    links,
    addresses,
    ...ports.watch.facts(),
  });
  if (failures.length === 1) throw failures[0];
  if (failures.length > 1) throw new AggregateError(failures, 'Cannot collect everything');
}

/** Records stay until their addresses are released: other address managers are asked for each of them by name. */
async function collect(
  { attachments }: CniPorts,
  source: AddressSource,
  { call, keeps }: { call: CniCall; keeps: Keeps },
): Promise<number> {
  const addresses = await source.collect(call, keeps);
  const { records } = await attachments.list();
  for (const { attachment } of records) {
    if (attachment.network === call.attachment.network && !keeps(attachment)) await attachments.remove(attachment);
  }
  return addresses;
}

async function removeLinks(
  kernel: Kernel,
  { call, keeps, failures }: { call: CniCall; keeps: Keeps; failures: unknown[] },
): Promise<number> {
  let removed = 0;
  for (const { name, owner } of kernel.listHostLinks()) {
    if (owner === undefined || !isLinkOf(owner, call.attachment.network) || keeps(owner)) continue;
    try {
      removed += (await kernel.remove(name, owner)) ? 1 : 0;
    } catch (cause) {
      failures.push(cause);
    }
  }
  return removed;
}

/** Which attachments the runtime wants kept; undefined, with a warning, when it gave no list. */
export function keepsOf({ log }: Pick<CniPorts, 'log'>, { config, attachment }: CniCall): Keeps | undefined {
  const valid = config.runtime.validAttachments;
  if (valid === undefined) {
    log.warning('nothing collected: the runtime gave no list of valid attachments', { network: attachment.network });
    return undefined;
  }
  const kept = new Set(valid.map(interfaceKey));
  return (attachment) => kept.has(interfaceKey(attachment));
}
