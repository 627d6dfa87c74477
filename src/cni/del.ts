import { reasonOf } from '../base/errors.ts';
import type { AddressSource } from './address-source.ts';
import { type CniCall, callFacts, type CniPorts } from './call.ts';
import { hostLinkName } from './link-name.ts';
import { stopEnforcement } from './pod-isolation.ts';

/**
 * Disconnects a pod: removes its link, then releases its addresses and endpoint. Idempotent, and needs neither the
 * network namespace nor a previous result. Keeps a link that a newer sandbox of the same pod has taken over.
 */
export async function del(ports: CniPorts, source: AddressSource, call: CniCall): Promise<void> {
  const unlinked = unlink(ports, call);
  // Nothing may still match the addresses when they are released.
  const isolationEnded = Promise.all([unlinked, stopEnforcement(ports, call, call.signal)]);
  await Promise.all([isolationEnded, source.release(call, isolationEnded)]);
  ports.log.info('pod disconnected', { ...callFacts(call), hadLink: await unlinked, ...ports.stopwatch.facts() });
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
