import { NetplugError } from '../base/errors.ts';
import { assign, rehearseAssign } from '../ipam/assign.ts';
import type { Lease } from '../ipam/plan-assign.ts';
import { release } from '../ipam/release.ts';
import { type Allocation, heldAddresses } from '../model/ip-block.ts';
import { handleOf } from '../model/names.ts';
import { endpointIdOf, type WorkloadEndpoint } from '../model/workload-endpoint.ts';
import { formatAddress } from '../net/address.ts';
import type { AddressSource, EndpointOf, Grant } from './address-source.ts';
import type { Call, CniPorts } from './call.ts';
import { differingSet } from './differing-set.ts';
import { type OwnIpam, requestOf } from './own-request.ts';
import { isBypassed } from './pod-network.ts';
import { staleEndpoints } from './stale-endpoints.ts';

type Ports = Omit<CniPorts, 'kernel' | 'execDelegate' | 'probeGate'>;

/** Addresses from netplug's own blocks; endpoint and addresses are written in one transaction (design D2). */
export function ownAddresses(ports: Ports, ipam: OwnIpam): AddressSource {
  const { store } = ports;
  return {
    async acquire(call, endpointOf) {
      if (isBypassed(call)) return bypass(ports, call, endpointOf);
      const leases = await ports.watch.time('store', async () =>
        assign(ports, requestOf(call, ipam, endpointOf), call),
      );
      return {
        addresses: leases.map(({ address }) => address),
        dns: {},
        facts: { pools: leases.map(({ pool }) => pool), poolsFrom: leases[0]?.allocation.chosenBy ?? '' },
        takeBack: async (signal) => takeBack(ports, { call, leases, endpoint: endpointOf([]) }, signal),
      };
    },

    async release(call, unlinked) {
      const handle = handleOf(call.attachment);
      const endpoint = endpointRelease(call);
      const [view] = await Promise.all([
        ports.watch.time('store', async () => store.readNodeView(call.node, endpoint?.id, call.signal)),
        unlinked,
      ]);
      const which = (allocation: Allocation): boolean => allocation.handle === handle;
      const freed = await ports.watch.time('store', async () =>
        release(ports, { node: call.node, which, view, ...(endpoint === undefined ? {} : { endpoint }) }, call.signal),
      );
      for (const { id } of freed) ports.log.debug('address released', { handle, id });
    },

    async check(call, addresses) {
      const view = await store.readNodeView(call.node, undefined, call.signal);
      const handle = handleOf(call.attachment);
      const held = [...view.owned, ...view.borrowed]
        .flatMap(({ value }) => heldAddresses(value, (allocation) => allocation.handle === handle))
        .map(({ address }) => formatAddress(address));
      const difference = differingSet(addresses.map(formatAddress), held);
      if (difference === undefined) return;
      throw new NetplugError(
        'check/mismatch',
        `Cannot confirm the addresses of container "${call.attachment.containerId}": the address manager ${difference}`,
        {
          hint: 'Recreate the pod; "netplugctl ipam show --ip" tells who holds an address',
        },
      );
    },

    async collect(call, keeps) {
      const { network } = call.attachment;
      const freed = await release(
        ports,
        { node: call.node, which: (allocation) => allocation.network === network && !keeps(allocation) },
        call.signal,
      );
      for (const { id, containerId } of freed) ports.log.info('address collected', { containerId, id });
      for (const before of await staleEndpoints(store, call, keeps)) {
        await store.commit([{ kind: 'delete-endpoint', before }], call.signal);
      }
      return freed.length;
    },

    async assertReady(call) {
      await rehearseAssign(ports, requestOf(call, ipam, undefined), call.signal);
    },
  };
}

/** Addresses an annotation gives without the address manager: only the endpoint is recorded (annotation rule 7). */
async function bypass({ store, watch }: Ports, call: Call, endpointOf: EndpointOf): Promise<Grant> {
  const addresses = call.orchPod?.wishes.addresses?.addresses ?? [];
  const endpoint = endpointOf(addresses);
  await watch.time('store', async () => store.commit([{ kind: 'put-endpoint', endpoint }], call.cleanupSignal));
  const takeBackEndpoint = async (signal: AbortSignal): Promise<void> => {
    const id = endpointIdOf(endpoint);
    const isSame = ({ spec }: WorkloadEndpoint): boolean => spec.containerID === call.attachment.containerId;
    const { endpoint: before } = await store.readNodeView(call.node, id, signal);
    if (before !== undefined && isSame(before.value)) await store.commit([{ kind: 'delete-endpoint', before }], signal);
  };
  return { addresses, dns: {}, facts: { poolsFrom: 'ipAddrsNoIpam' }, takeBack: takeBackEndpoint };
}

function endpointRelease(
  call: Call,
): { id: ReturnType<typeof endpointIdOf>; isSame: (endpoint: WorkloadEndpoint) => boolean } | undefined {
  const id = call.endpointId;
  if (id === undefined) return undefined;
  return {
    id,
    isSame: ({ spec }) => spec.containerID === call.attachment.containerId && spec.network === call.attachment.network,
  };
}

async function takeBack(
  ports: Ports,
  { call, leases, endpoint }: { call: Call; leases: readonly Lease[]; endpoint: WorkloadEndpoint },
  signal: AbortSignal,
): Promise<void> {
  const taken = new Set(leases.filter(({ isNew }) => isNew).map(({ allocation }) => allocation.id));
  if (taken.size === 0) return;
  const isSame = ({ spec }: WorkloadEndpoint): boolean => spec.containerID === call.attachment.containerId;
  await release(
    ports,
    { node: call.node, which: ({ id }) => taken.has(id), endpoint: { id: endpointIdOf(endpoint), isSame } },
    signal,
  );
}
