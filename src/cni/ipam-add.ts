import { GATEWAYS } from '../dataplane/kernel.ts';
import { assign } from '../ipam/assign.ts';
import { formatAddress } from '../net/address.ts';
import { type CniCall, callFacts, type CniPorts, refuseOrchestrator } from './call.ts';
import { type OwnIpam, requestOf } from './own-request.ts';
import type { CniResult } from './result.ts';

/**
 * ADD of netplug-ipam under another main plugin: addresses with the length of their block, so that main plugins which
 * expect a subnet find one, and the gateway. No routes: the standard plugins add them before they can reach a gateway
 * outside the subnet, and fail. No endpoint is recorded.
 */
export async function ipamAdd(ports: CniPorts, ipam: OwnIpam, call: CniCall): Promise<CniResult> {
  refuseOrchestrator(call.config);
  const leases = await assign(ports, requestOf(call, ipam, undefined), call);
  const ips = leases.map(({ address, block }) => ({
    address: `${formatAddress(address)}/${String(block.prefixBits)}`,
    gateway: GATEWAYS[address.family],
  }));
  ports.log.info('addresses assigned', {
    ...callFacts(call),
    addresses: ips.map(({ address }) => address),
    ...ports.watch.facts(),
  });
  return { interfaces: [], ips, routes: [], dns: {} };
}
