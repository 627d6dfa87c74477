import { reasonOf } from '../base/errors.ts';
import type { Address } from '../net/address.ts';
import type { AddressSource } from './address-source.ts';
import { type CniCall, callFacts, type CniPorts } from './call.ts';
import { hostLinkName } from './link-name.ts';
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
    await unlinked;
    if (!(await stopped)) await withdrawPod(ports, call, addresses);
  });
  await Promise.all([unlinked, stopped, released]);
  ports.log.info('pod disconnected', { ...callFacts(call), hadLink: await unlinked, ...ports.stopwatch.facts() });
}

/** The interface belongs to a newer sandbox of the same pod when there is one. */
async function withdrawPod(ports: CniPorts, call: CniCall, addresses: readonly Address[]): Promise<void> {
  const name = hostLinkName(call.pod, call.attachment);
  const isTaken = ports.kernel.listHostLinks().some((link) => link.name === name);
  await withdrawLeft(ports, { interfaces: isTaken ? [] : [name], addresses }, call.signal);
}

/** Removes the link and the attachment's record on the node. Reports whether there was a link. */
async function unlink({ kernel, attachments, log }: CniPorts, call: CniCall): Promise<boolean> {
  const { pod, attachment } = call;
  const hadLink = await kernel.remove(hostLinkName(pod, attachment), attachment);
  await attachments.remove(attachment).catch((cause: unknown) => {
    log.warning('attachment record not removed', { ...callFacts(call), reason: reasonOf(cause) });
  });
  return hadLink;
}
