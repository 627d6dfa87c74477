import { type CoolDown, coolsUntil } from '../../../model/cool-down.ts';
import { type Allocation, holderOf } from '../../../model/ip-block.ts';
import { isTunnelAddress } from '../../../model/tunnel-attachment.ts';
import { type Address, formatAddress } from '../../../net/address.ts';
import { cidrContains, formatCidr, ordinalOf, parseCidr } from '../../../net/cidr.ts';
import { nameOwner } from './describe-holder.ts';
import type { PoolRecords } from '../../../ipam/forecast/pool-usage.ts';

/** Facts about one address. */
export interface AddressReport {
  readonly address: string;
  readonly state: 'held' | 'pre-allocated' | 'free' | 'reserved' | 'outside of every pool';
  readonly pool: string | undefined;
  readonly block: string | undefined;
  readonly blockOwner: string | undefined;
  readonly reservation: string | undefined;
  readonly holder: Allocation | undefined;
  /** Until when no other pod gets it, RFC 3339; undefined when it does not cool down. */
  readonly coolingUntil: string | undefined;
  /** The pod that held it last, or the handle of an attachment without a pod; undefined when it does not cool down. */
  readonly lastHolder: string | undefined;
}

export function reportAddress(
  { pools, reservations, blocks }: PoolRecords,
  address: Address,
  coolDown: CoolDown,
): AddressReport {
  const pool = pools.find(({ spec }) => cidrContains(parseCidr(spec.cidr), address));
  const around = blocks.filter(({ cidr }) => cidrContains(cidr, address));
  // Blocks should not overlap. If they do, show the one that names a holder.
  const block = around.find((each) => holderOf(each, address) !== undefined) ?? around[0];
  const holder = block === undefined ? undefined : holderOf(block, address);
  const reservation = reservations.find(({ spec }) =>
    spec.reservedCIDRs.some((text) => cidrContains(parseCidr(text), address)),
  );
  const ordinal = block === undefined ? 0 : ordinalOf(block.cidr, address);
  const isPreallocated = block?.preallocated.has(ordinal) === true;
  const until = block?.queue.includes(ordinal) === true ? coolsUntil(block, ordinal, coolDown) : undefined;
  const idle = pool === undefined ? 'outside of every pool' : reservation === undefined ? 'free' : 'reserved';
  return {
    address: formatAddress(address),
    state: holder === undefined ? (isPreallocated ? 'pre-allocated' : idle) : 'held',
    pool: pool?.metadata.name,
    block: block === undefined ? undefined : formatCidr(block.cidr),
    blockOwner: block?.node,
    reservation: reservation?.metadata.name,
    holder,
    coolingUntil: until === undefined ? undefined : new Date(until * 1000).toISOString(),
    lastHolder: until === undefined ? undefined : block?.released.get(ordinal)?.holder,
  };
}

/** Renders the report as text, one fact per line. */
export function renderAddress(report: AddressReport): string {
  const { address, state, pool, block, blockOwner, reservation, holder, coolingUntil, lastHolder } = report;
  const facts: [string, string | undefined][] = [
    ...(holder === undefined ? [] : holderFacts(holder)),
    ['node', holder?.node],
    ['since', holder?.at],
    ['pool', pool],
    ['block', block === undefined ? undefined : `${block} of ${nameOwner(blockOwner)}`],
    ['reserved by', reservation],
    ['cooling', coolingUntil === undefined ? undefined : `until ${coolingUntil}`],
    ['last holder', lastHolder],
    ['chosen by', holder?.chosenBy],
    ['considered', holder?.considered?.join('; ')],
    ['allocation', holder?.id],
  ];
  const lines = facts.flatMap(([name, value]) => (value === undefined ? [] : [`  ${`${name}:`.padEnd(13)}${value}\n`]));
  return `${address} is ${state}\n${lines.join('')}`;
}

function holderFacts(holder: Allocation): [string, string | undefined][] {
  const { namespace, pod, podUid, containerId, ifName, network } = holder;
  if (isTunnelAddress(holder)) return [['tunnel', ifName]];
  return [
    ['pod', pod === undefined ? undefined : `${namespace ?? 'default'}/${pod}`],
    ['pod uid', podUid],
    ['container', containerId],
    ['interface', ifName],
    ['network', network],
  ];
}
