import { GATEWAYS } from '../dataplane/kernel.ts';
import { assign } from '../ipam/assign.ts';
import { formatAddress } from '../net/address.ts';
import { type CniCall, callFacts, type CniPorts, assertOrchestratorAccess } from './call.ts';
import { type OwnIpam, requestOf } from './own-request.ts';
import type { CniResult } from './result.ts';

/**
 * Serves ADD of netplug-ipam under another main plugin. Returns addresses with the prefix length of their block, because
 * main plugins expect a subnet, and the gateway. Returns no routes: the standard plugins would add them before the
 * gateway, which is outside the subnet, is reachable. Records no endpoint.
 */
export async function ipamAdd(ports: CniPorts, ipam: OwnIpam, call: CniCall): Promise<CniResult> {
  assertOrchestratorAccess(call.config);
  const assigned = await assign(ports, requestOf(call, ipam, undefined), call);
  const ips = assigned.map(({ address, block }) => ({
    address: `${formatAddress(address)}/${String(block.prefixBits)}`,
    gateway: GATEWAYS[address.family],
  }));
  ports.log.info('addresses assigned', {
    ...callFacts(call),
    addresses: ips.map(({ address }) => address),
    ...ports.stopwatch.facts(),
  });
  return { interfaces: [], ips, routes: [], dns: {} };
}
