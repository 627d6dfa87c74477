import type { AddressSource } from './address-source.ts';
import { type Call, callFacts, type CniPorts } from './call.ts';
import { hostLinkName } from './link-name.ts';

/**
 * Takes a pod off the network: first its link, so that nothing uses the addresses any more, then addresses and endpoint.
 * Needs neither namespace nor previous result; what is gone already counts as done. A link that a newer sandbox of the
 * same pod has taken over stays.
 */
export async function del(ports: CniPorts, source: AddressSource, call: Call): Promise<void> {
  const unlinked = ports.watch.time('kernel', async () =>
    ports.kernel.remove(hostLinkName(call.pod, call.attachment), call.attachment),
  );
  await Promise.all([unlinked, source.release(call, unlinked)]);
  ports.log.info('pod disconnected', { ...callFacts(call), hadLink: await unlinked, ...ports.watch.facts() });
}
