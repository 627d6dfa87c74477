import { type Allocation, heldAddresses } from '../model/ip-block.ts';
import type { IpPool } from '../model/ip-pool.ts';
import { handleOf, isSameHolder, type NodeName } from '../model/names.ts';
import { matchesSelector } from '../model/selector.ts';
import { tunnelAttachment } from '../model/tunnel-attachment.ts';
import type { Address, Family } from '../net/address.ts';
import { cidrContains, parseCidr } from '../net/cidr.ts';
import { assign, type IpamPorts, type Limits } from './assign.ts';
import { decodePools } from './choose-pools.ts';
import { release } from './release.ts';

export interface TunnelAddressRequest {
  readonly node: NodeName;
  readonly device: string;
  readonly family: Family;
  /** Those that ask for the tunnel, as they were when they could be read last. */
  readonly pools: readonly IpPool[];
}

/**
 * The address of a tunnel device of the node: the one it has while that lies in a wanted pool that is enabled, otherwise
 * another one.
 * Undefined, with nothing held, when no pool may give one. @throws what `assign` throws
 */
export async function keepTunnelAddress(
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
  const stored = new Map(decodePools(view.pools).map((pool) => [pool.name, pool]));
  // What is closed keeps no address of a tunnel: nothing else could move it away. A pool that cannot be read stays as it was.
  const open = pools.filter(({ spec, metadata }) => !spec.disabled && stored.get(metadata.name)?.closed === undefined);
  const held = [...view.owned, ...view.borrowed].flatMap(({ value }) => heldAddresses(value, isOwn));
  const good = held.find(({ address }) => open.some(({ spec }) => cidrContains(parseCidr(spec.cidr), address)));
  const isKept = ({ id }: Allocation): boolean => id === good?.allocation.id;
  if (held.some(({ allocation }) => !isKept(allocation))) {
    await release(ports, { node, which: (each) => isOwn(each) && !isKept(each) }, limits.cleanupSignal);
  }
  const readable = open.filter(({ metadata }) => stored.has(metadata.name));
  if (good !== undefined || readable.length === 0) return good?.address;
  const refs = readable.map(({ metadata: { name } }) => ({ by: 'name', name }) as const);
  const none = { assign: false, pools: undefined };
  const [lease] = await assign(
    ports,
    {
      node,
      attachment,
      use: 'Tunnel',
      pod: undefined,
      pools: { 4: none, 6: none, [family]: { assign: true, pools: refs } },
      requested: { addresses: [], rule: 'node-selector' },
    },
    limits,
  );
  return lease?.address;
}

function usablePools(
  { pools, family }: TunnelAddressRequest,
  labels: Readonly<Record<string, string>>,
): readonly IpPool[] {
  return pools
    .filter(({ spec }) => parseCidr(spec.cidr).base.family === family)
    .filter(({ spec }) => spec.allowedUses.includes('Tunnel') && matchesSelector(spec.nodeSelector, labels));
}
