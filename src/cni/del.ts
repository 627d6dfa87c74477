import { reasonOf } from '../base/errors.ts';
import type { AddressSource } from './address-source.ts';
import { type CniCall, callFacts, type CniPorts } from './call.ts';
import { hostLinkName } from './link-name.ts';

/**
 * Takes a pod off the network: first its link, so that nothing uses the addresses any more, then addresses and endpoint.
 * Needs neither namespace nor previous result; what is gone already counts as done. A link that a newer sandbox of the
 * same pod has taken over stays.
 */
export async function del(ports: CniPorts, source: AddressSource, call: CniCall): Promise<void> {
  const unlinked = unlink(ports, call);
  await Promise.all([unlinked, source.release(call, unlinked)]);
  ports.log.info('pod disconnected', { ...callFacts(call), hadLink: await unlinked, ...ports.watch.facts() });
}

/** The record goes with the link, without which it counts for nothing. */
async function unlink({ kernel, attachments, log }: CniPorts, call: CniCall): Promise<boolean> {
  const { pod, attachment } = call;
  const hadLink = await kernel.remove(hostLinkName(pod, attachment), attachment);
  await attachments.remove(attachment).catch((cause: unknown) => {
    log.warning('attachment record not removed', { ...callFacts(call), reason: reasonOf(cause) });
  });
  return hadLink;
}
