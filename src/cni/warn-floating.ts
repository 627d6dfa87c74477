import { cidrContains, parseCidr } from '../net/cidr.ts';
import { formatAddress } from '../net/address.ts';
import { ANNOTATIONS } from '../netconf/annotations.ts';
import type { Call, CniPorts } from './call.ts';

/**
 * A floating IP outside every pool works on its node but is not advertised (specification, annotation `floatingIPs`).
 * That is worth a warning to whoever wrote it, as an event of the pod, and no reason to fail.
 */
export async function warnAboutFloatingIps({ store, orch, log, watch }: CniPorts, call: Call): Promise<void> {
  const { orchPod, signal } = call;
  if (orchPod === undefined || orchPod.wishes.floatingIps.length === 0) return;
  const { facts, wishes } = orchPod;
  await watch.time('orchestrator', async () => {
    const { resources } = await store.listResources('IPPool', signal);
    const pools = resources.map(({ spec }) => parseCidr(spec.cidr));
    const outside = wishes.floatingIps.filter((address) => !pools.some((cidr) => cidrContains(cidr, address)));
    if (outside.length === 0) return;
    const listed = outside.map(formatAddress).join(', ');
    const message = `${ANNOTATIONS.floatingIPs}: ${listed} lies in no IP pool and will not be advertised to other nodes`;
    log.warning('floating IP outside every pool', { pod: `${facts.namespace}/${facts.name}`, addresses: listed });
    await orch.recordWarning(facts, message, signal).catch((cause: unknown) => {
      log.warning('event not recorded', { reason: cause instanceof Error ? cause.message : String(cause) });
    });
  });
}
