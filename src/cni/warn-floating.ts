import { reasonOf } from '../base/errors.ts';
import type { PodFacts } from '../model/pod.ts';
import { type Address, formatAddress } from '../net/address.ts';
import { cidrContains, parseCidr } from '../net/cidr.ts';
import { ANNOTATIONS } from '../model/annotation-keys.ts';
import type { CniCall, CniPorts } from './call.ts';

/**
 * Records an event on the pod when a floating IP is outside every pool: it works on its node but is not advertised
 * (specification, annotation `floatingIPs`). Never throws.
 */
export async function warnAboutFloatingIps(ports: CniPorts, { orchPod, signal }: CniCall): Promise<void> {
  if (orchPod === undefined || orchPod.requests.floatingIps.length === 0) return;
  const { facts, requests } = orchPod;
  await warnAbout(ports, { facts, addresses: requests.floatingIps }, signal).catch((cause: unknown) => {
    ports.log.warning('event not recorded', { reason: reasonOf(cause) });
  });
}

async function warnAbout(
  { store, orch, log }: CniPorts,
  { facts, addresses }: { facts: PodFacts; addresses: readonly Address[] },
  signal: AbortSignal,
): Promise<void> {
  const { resources } = await store.listResources('IPPool', signal);
  const pools = resources.map(({ spec }) => parseCidr(spec.cidr));
  const outside = addresses.filter((address) => !pools.some((cidr) => cidrContains(cidr, address)));
  if (outside.length === 0) return;
  const listed = outside.map(formatAddress).join(', ');
  log.warning('floating IPs not advertised', {
    reason: 'they are outside every pool',
    pod: `${facts.namespace}/${facts.name}`,
    addresses: listed,
  });
  const message = `${ANNOTATIONS.floatingIPs}: ${listed} is outside every IP pool and will not be advertised to other nodes`;
  await orch.recordWarning(facts, message, signal);
}
