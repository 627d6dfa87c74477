import { isNetplugError } from '../base/errors.ts';
import { type Allocation, heldAddresses } from '../model/ip-block.ts';
import type { IpPool } from '../model/ip-pool.ts';
import { handleOf, isSameHolder, type NodeName } from '../model/names.ts';
import { matchesSelector } from '../model/selector.ts';
import { tunnelAttachment } from '../model/tunnel-attachment.ts';
import type { Address, Family } from '../net/address.ts';
import { cidrContains, parseCidr } from '../net/cidr.ts';
import { assign, type IpamPorts, type Limits } from './assign.ts';
import { decodePools, type Pool } from './choose-pools.ts';
import { release } from './release.ts';

export interface TunnelAddressRequest {
  readonly node: NodeName;
  readonly device: string;
  readonly family: Family;
  /** Pools that use the tunnel, as they were last read. */
  readonly pools: readonly IpPool[];
  /** The address that the device has. */
  readonly present?: Address | undefined;
}

/** Why the present address of a device cannot be held again. */
const LOST = [
  'ipam/address-taken',
  'ipam/address-not-in-pool',
  'ipam/strict-affinity',
  'ipam/pre-allocated',
  'ipam/exhausted',
] as const;

/**
 * Returns the address of a tunnel device of the node. Keeps the present address while it lies in one of the pools and
 * that pool is enabled, also when the datastore has lost it; otherwise assigns another one. Returns undefined, and holds
 * nothing, when no pool may be used.
 * @throws what `assign` throws
 */
export async function ensureTunnelAddress(
  ports: IpamPorts,
  request: TunnelAddressRequest,
  limits: Limits,
): Promise<Address | undefined> {
  const { node, device, family } = request;
  const attachment = tunnelAttachment(node, device);
  const holder = { node, handle: handleOf(attachment) };
  const isOwn = (allocation: Allocation): boolean => isSameHolder(allocation, holder);
  const view = await ports.store.readNodeView(node, undefined, limits.signal);
  const pools = usablePools(request, view.node?.metadata.labels ?? {});
  const stored = new Map(decodePools(view.pools, ports.ownRanges?.()).map((pool) => [pool.name, pool]));
  const closedOf = ({ metadata }: IpPool): Pool['closed'] => stored.get(metadata.name)?.closed;
  const isMarked = (closed: Pool['closed']): boolean => typeof closed === 'object' && 'marked' in closed;
  // Tunnel addresses must leave closed pools, and only this code moves them. A pool that cannot be read counts as unchanged.
  // A mark moves none: a node that joins must not cut the tunnels of all others.
  const kept = pools.filter(
    (pool) => !pool.spec.disabled && (closedOf(pool) === undefined || isMarked(closedOf(pool))),
  );
  const held = [...view.owned, ...view.borrowed].flatMap(({ value }) => heldAddresses(value, isOwn));
  const good = held.find(({ address }) => kept.some(({ spec }) => cidrContains(parseCidr(spec.cidr), address)));
  const isKept = ({ id }: Allocation): boolean => id === good?.allocation.id;
  if (held.some(({ allocation }) => !isKept(allocation))) {
    await release(ports, { node, which: (each) => isOwn(each) && !isKept(each) }, limits.cleanupSignal);
  }
  const open = kept.filter((pool) => stored.has(pool.metadata.name) && closedOf(pool) === undefined);
  if (good !== undefined || open.length === 0) return good?.address;
  const refs = open.map(({ metadata: { name } }) => ({ by: 'name', name }) as const);
  const none = { assign: false, pools: undefined };
  const ask = async (addresses: readonly Address[]): Promise<Address | undefined> => {
    const [lease] = await assign(
      ports,
      {
        node,
        attachment,
        use: 'Tunnel',
        pod: undefined,
        pools: { 4: none, 6: none, [family]: { assign: true, pools: refs } },
        requested: { addresses, rule: 'node-selector' },
      },
      limits,
    );
    return lease?.address;
  };
  const { present } = request;
  const isOpen = present !== undefined && open.some(({ spec }) => cidrContains(parseCidr(spec.cidr), present));
  if (!isOpen) return ask([]);
  return ask([present]).catch(async (cause: unknown) => {
    if (!isNetplugError(cause, ...LOST)) throw cause;
    return ask([]);
  });
}

function usablePools(
  { pools, family }: TunnelAddressRequest,
  labels: Readonly<Record<string, string>>,
): readonly IpPool[] {
  return pools
    .filter(({ spec }) => parseCidr(spec.cidr).base.family === family)
    .filter(({ spec }) => spec.allowedUses.includes('Tunnel') && matchesSelector(spec.nodeSelector, labels));
}
