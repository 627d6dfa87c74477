import { reasonOf } from '../base/errors.ts';
import type { Address } from '../net/address.ts';
import type { AddressSource } from './address-source.ts';
import { type CniCall, callFacts, type CniPorts } from './call.ts';
import { findLinkOf, hostLinkName } from './link-name.ts';
import { stopEnforcement, withdrawLeft } from './pod-isolation.ts';

/**
 * Disconnects a pod: removes its link, then releases its addresses and endpoint. Idempotent, and needs neither the
 * network namespace nor a previous result. Keeps a link that a newer sandbox of the same pod has taken over.
 */
export async function del(ports: CniPorts, source: AddressSource, call: CniCall): Promise<void> {
  const stopped = stopEnforcement(ports, call, call.signal);
  const unlinked = unlink(ports, call);
  // Nothing may still match the addresses when they are released.
  const released = source.release(call, async (addresses) => {
    const { name } = await unlinked;
    if (!(await stopped)) await withdrawPod(ports, call, { name, addresses });
  });
  await Promise.all([unlinked, stopped, released]);
  ports.log.info('pod disconnected', {
    ...callFacts(call),
    hadLink: (await unlinked).hadLink,
    ...ports.stopwatch.facts(),
  });
}

/** The interface belongs to a newer sandbox of the same pod when there is one. */
async function withdrawPod(
  ports: CniPorts,
  call: CniCall,
  { name, addresses }: { readonly name: string; readonly addresses: readonly Address[] },
): Promise<void> {
  const isTaken = ports.kernel.listHostLinks().some((link) => link.name === name);
  await withdrawLeft(ports, { interfaces: isTaken ? [] : [name], addresses }, call.signal);
}

/** Removes the link and the attachment's record on the node. Returns the name of the link, and reports whether there was one. */
async function unlink(
  { kernel, attachments, linkKey, log }: CniPorts,
  call: CniCall,
): Promise<{ readonly name: string; readonly hadLink: boolean }> {
  const { pod, attachment } = call;
  // Without the key, the alias tells which link it is.
  const named = hostLinkName(await linkKey(), pod, attachment);
  const isRemoved = await kernel.remove(named, attachment);
  const other = isRemoved ? undefined : findLinkOf(kernel, attachment)?.name;
  const hadLink = isRemoved || (other !== undefined && (await kernel.remove(other, attachment)));
  await attachments.remove(attachment).catch((cause: unknown) => {
    log.warning('attachment record not removed', { ...callFacts(call), reason: reasonOf(cause) });
  });
  return { name: other ?? named, hadLink };
}
