import { NetplugError, reasonOf } from '../base/errors.ts';
import { assign, type AssignRequest, dryRunAssign } from '../ipam/assign.ts';
import type { AssignedAddress } from '../ipam/plan-assign.ts';
import { release, releaseForGood } from '../ipam/release.ts';
import { type Allocation, heldAddresses, hasAddressOf } from '../model/ip-block.ts';
import { handleOf, isSameHolder } from '../model/names.ts';
import { formatAddress, sameAddress } from '../net/address.ts';
import type { AddressSource, EndpointOf, AssignedAddresses } from './address-source.ts';
import type { CniCall, CniPorts } from './call.ts';
import { describeDifference } from './describe-difference.ts';
import { type OwnIpam, requestOf } from './own-request.ts';
import { ownEndpoint, releaseEndpoint, releaseReplaced } from './own-endpoint.ts';
import { isBypassed } from './pod-network.ts';
import { staleEndpoints } from './stale-endpoints.ts';

type Ports = Omit<CniPorts, 'kernel' | 'execDelegate' | 'probeGate'>;

/** Assigns addresses from netplug's own blocks. Writes endpoint and addresses in one transaction. */
export function ownAddresses(ports: Ports, ipam: OwnIpam): AddressSource {
  const { store } = ports;
  return {
    async assign(call, endpointOf, onDecided) {
      if (isBypassed(call)) return bypass(ports, call, endpointOf);
      const request: AssignRequest = {
        ...requestOf(call, ipam, endpointOf),
        onDecided: (decided) => onDecided?.(decided.map(({ address }) => address)),
      };
      const assigned = await assign(ports, request, call);
      return {
        addresses: assigned.map(({ address }) => address),
        dns: {},
        facts: { pools: assigned.map(({ pool }) => pool), poolsFrom: assigned[0]?.allocation.chosenBy ?? '' },
        rollBack: async (signal) => rollBack(ports, { call, assigned }, signal),
        isTakenOver: async (signal) => isTakenOver(ports, { call, assigned }, signal),
      };
    },

    async release(call, unused) {
      const handle = handleOf(call.attachment);
      const view = await store.readNodeView(call.node, call.endpointId, call.signal);
      const which = (allocation: Allocation): boolean => allocation.handle === handle;
      const held = [...view.owned, ...view.borrowed].flatMap(({ value }) => heldAddresses(value, which));
      await unused(held.map(({ address }) => address));
      await releaseReplaced(ports, call, view);
      const request = { node: call.node, which, handle, view, ...ownEndpoint(call) };
      const freed = await releaseForGood(ports, request, call.signal);
      for (const { id } of freed) ports.log.debug('address released', { handle, id });
    },

    async check(call, addresses) {
      const view = await store.readNodeView(call.node, undefined, call.signal);
      const holder = { node: call.node, handle: handleOf(call.attachment) };
      const held = [...view.owned, ...view.borrowed]
        .filter(({ value }) => hasAddressOf(value, holder.handle))
        .flatMap(({ value }) => heldAddresses(value, (allocation) => isSameHolder(allocation, holder)))
        .map(({ address }) => formatAddress(address));
      const difference = describeDifference(addresses.map(formatAddress), held);
      if (difference === undefined) return;
      throw new NetplugError(
        'check/mismatch',
        `Cannot confirm the addresses of container "${call.attachment.containerId}": the address manager ${difference}`,
        {
          hint: 'Recreate the pod; find the holder of an address with "netplugctl ipam show --ip <address>"',
        },
      );
    },

    async collect(call, isKept) {
      const { network } = call.attachment;
      const which = (allocation: Allocation): boolean => allocation.network === network && !isKept(allocation);
      const freed = await release(ports, { node: call.node, which }, call.signal);
      for (const { id, containerId } of freed) ports.log.info('address released', { containerId, id });
      for (const before of await staleEndpoints(ports, call, isKept)) {
        await store.commit([{ kind: 'delete-endpoint', before }], call.signal);
      }
      return freed.length;
    },

    async assertReady(call) {
      await dryRunAssign(ports, requestOf(call, ipam, undefined), call.signal);
    },
  };
}

/** Uses the addresses of an annotation without the address manager and records the endpoint only (map: ann-addresses). */
async function bypass(ports: Ports, call: CniCall, endpointOf: EndpointOf): Promise<AssignedAddresses> {
  const addresses = call.orchPod?.requests.addresses?.addresses ?? [];
  const put = { kind: 'put-endpoint', endpoint: endpointOf(addresses) } as const;
  await ports.store.commit([put], call.cleanupSignal);
  return {
    addresses,
    dns: {},
    facts: { poolsFrom: 'ipAddrsNoIpam' },
    rollBack: async (signal) => releaseEndpoint(ports, call, signal),
  };
}

/** Another call that found the address recorded has taken it again under an id of its own. */
async function isTakenOver(
  { store, log }: Ports,
  { call, assigned }: { call: CniCall; assigned: readonly AssignedAddress[] },
  signal: AbortSignal,
): Promise<boolean> {
  const holder = { node: call.node, handle: handleOf(call.attachment) };
  try {
    const shown = await store.readNodeView(call.node, undefined, signal);
    const { owned, borrowed } = (await shown.latest?.(signal)) ?? shown;
    const others = [...owned, ...borrowed]
      .flatMap(({ value }) => heldAddresses(value, (allocation) => isSameHolder(allocation, holder)))
      .filter(({ allocation }) => assigned.every((own) => own.allocation.id !== allocation.id));
    const isTaken = others.some(({ address }) => assigned.some((own) => sameAddress(own.address, address)));
    if (isTaken) log.warning('call not undone: another one has taken over', { ...call.attachment });
    return isTaken;
  } catch (cause) {
    // No other call can have taken it over while the datastore does not answer.
    log.debug('looked in vain for another call', { ...call.attachment, reason: reasonOf(cause) });
    return false;
  }
}

async function rollBack(
  ports: Ports,
  { call, assigned }: { call: CniCall; assigned: readonly AssignedAddress[] },
  signal: AbortSignal,
): Promise<void> {
  const taken = new Set(assigned.filter(({ isNew }) => isNew).map(({ allocation }) => allocation.id));
  if (taken.size === 0) return;
  const which = ({ id }: Allocation): boolean => taken.has(id);
  const { endpoint } = ownEndpoint(call);
  const undone = endpoint === undefined ? {} : { endpoint: { ...endpoint, unlessHeld: true } };
  await release(ports, { node: call.node, which, isUndo: true, ...undone }, signal);
}
