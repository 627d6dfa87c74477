import { NetplugError } from '../base/errors.ts';
import type { Allocation, IpBlock } from '../model/ip-block.ts';
import { reservedCidrs } from '../model/ip-reservation.ts';
import type { NodeName } from '../model/names.ts';
import { OUT_OF_SERVICE_TAINT } from '../model/out-of-service.ts';
import { type Address, formatAddress } from '../net/address.ts';
import { type Cidr, cidrContains, cidrSize, cidrsOverlap, formatCidr } from '../net/cidr.ts';
import { isOverUsedRange, OVERLAP_HINT, type Pool, whyClosed } from './choose-pools.ts';
import type { Claim } from '../datastore/allocation-store.ts';
import type { PlanInput, AddressRequest } from './plan-assign.ts';

/** Describes a holder by its pod, or by its container when no pod is known. */
export function describeHolder(holder: Allocation): string {
  const who =
    holder.pod === undefined
      ? `container "${holder.containerId}"`
      : `pod "${holder.namespace ?? 'default'}/${holder.pod}"`;
  return `${who} on node "${holder.node}" since ${holder.at}`;
}

/** An address and, when a user asked for it, where. */
export interface RequestedAddress {
  readonly address: Address;
  readonly askedBy: string | undefined;
}

function describeAsked({ address, askedBy }: RequestedAddress): string {
  return askedBy === undefined ? formatAddress(address) : `${formatAddress(address)}, asked for by ${askedBy}`;
}

/**
 * Returns the error for a requested address that `holder` has, with the way out of it: a holder on another node may be lost
 * with that node, which no one but an administrator can tell.
 */
export function addressTakenError(
  asked: RequestedAddress,
  { holder, successor }: { readonly holder: Allocation; readonly successor: Allocation },
): NetplugError {
  const address = formatAddress(asked.address);
  const isSamePod =
    holder.pod !== undefined && holder.pod === successor.pod && holder.namespace === successor.namespace;
  const earlier = isSamePod ? ', an earlier pod of this name' : '';
  const ways = [
    ...(isSamePod ? [] : ['Request another address, or delete the pod that holds this one']),
    holder.node === successor.node
      ? 'Run "netplugctl ipam check" to find out whether it is leaked'
      : lostHolderHint(address, holder.node),
  ];
  return new NetplugError(
    'ipam/address-taken',
    `Cannot assign ${describeAsked(asked)}: held by ${describeHolder(holder)}${earlier}`,
    { hint: ways.join('. '), facts: { address, holder: holder.containerId, node: holder.node } },
  );
}

/** Says how an address is moved from a node that is lost, and what must be true before. */
function lostHolderHint(address: string, node: NodeName): string {
  return (
    `If the machine of node "${node}" is off for good, taint the node with ${OUT_OF_SERVICE_TAINT}: netplug-orch-controllers ` +
    `release the address as soon as the API has that pod no more. Or, only when no container on node "${node}" ` +
    `can use the address any more, run "netplugctl ipam release --ip ${address} --force"`
  );
}

export function strictAffinityError(address: Address, block: IpBlock): NetplugError {
  return new NetplugError(
    'ipam/strict-affinity',
    `Cannot assign ${formatAddress(address)}: block ${formatCidr(block.cidr)} belongs to ${block.node === undefined ? 'no node' : `node "${block.node}"`} and strict affinity is on`,
    {
      hint: 'Run the pod on that node, ask for another address, or set strictAffinity to false in the IPAMConfiguration',
    },
  );
}

export function notInPoolError(asked: RequestedAddress, pool: Pool | undefined, pools: readonly Pool[]): NetplugError {
  const { address } = asked;
  const closed = pool === undefined ? undefined : whyClosed(pool);
  const state = pool === undefined ? 'it lies in no IP pool' : `it lies in pool "${pool.name}", and ${closed ?? ''}`;
  const listed = pools.map(({ name, cidr }) => `"${name}" ${formatCidr(cidr)}`).join(', ');
  return new NetplugError('ipam/address-not-in-pool', `Cannot assign ${describeAsked(asked)}: ${state}`, {
    hint: listed === '' ? 'Create an IP pool first' : `Ask for an address inside one of the pools: ${listed}`,
    facts: { address: formatAddress(address) },
  });
}

/** Returns the error for a requested address whose block no node has claimed, on a node that may claim no more blocks. */
export function blockLimitError(
  asked: RequestedAddress,
  { cidr, node, limit }: { readonly cidr: Cidr; readonly node: NodeName; readonly limit: number },
): NetplugError {
  return new NetplugError(
    'ipam/exhausted',
    `Cannot assign ${describeAsked(asked)}: no node has claimed its block ${formatCidr(cidr)} yet, and node "${node}" owns ${String(limit)} ${limit === 1 ? 'block' : 'blocks'}, its limit`,
    {
      hint: 'Raise maxBlocksPerNode in the IPAMConfiguration, or ask for an address in a block that a node owns ("netplugctl ipam show --blocks")',
      facts: { address: formatAddress(asked.address), node },
    },
  );
}

/** Returns the error for a requested address whose new block would overlap an existing block. */
export function blockOverlapsError(asked: RequestedAddress, cidr: Cidr, claim: Claim): NetplugError {
  const owner = claim.node === undefined ? 'no node' : `node "${claim.node}"`;
  return new NetplugError(
    'ipam/exhausted',
    `Cannot assign ${describeAsked(asked)}: its block ${formatCidr(cidr)} would overlap block ${formatCidr(claim.cidr)} of ${owner}`,
    {
      hint: 'Free that block first; "netplugctl ipam check" lists blocks of another size than that of their pool',
      facts: { address: formatAddress(asked.address), block: formatCidr(claim.cidr) },
    },
  );
}

/** Returns the error that names, for every pool of the family, why it has no address, with the hint that helps most. */
export function exhaustedError(state: {
  request: AddressRequest;
  node: NodeName;
  input: PlanInput;
  atLimit: boolean;
}): NetplugError {
  const { request, node, input, atLimit } = state;
  const { verdicts } = request.selection;
  const reasons = verdicts.map(({ pool, verdict }) => {
    const closed = isOverUsedRange(pool) ? whyClosed(pool) : undefined;
    const why = verdict === 'eligible' ? whyFull(pool, state) : (closed ?? verdict);
    return `pool "${pool.name}" ${formatCidr(pool.cidr)}: ${why}`;
  });
  const family = `IPv${String(request.family)}`;
  const looked = reasons.length === 0 ? `no ${family} pool exists` : reasons.join('; ');
  const limit = input.view.config.maxBlocksPerNode;
  const hint =
    request.selection.eligible.length === 0
      ? verdicts.some(({ pool }) => isOverUsedRange(pool))
        ? OVERLAP_HINT
        : 'Create a pool with netplugctl whose nodeSelector selects the node, or enable one'
      : atLimit
        ? `Raise maxBlocksPerNode (now ${String(limit)}) in the IPAMConfiguration, or add a pool with larger blocks`
        : 'Add an IP pool; "netplugctl ipam check" lists leaked addresses';
  return new NetplugError('ipam/exhausted', `Cannot assign an ${family} address on node "${node}": ${looked}`, {
    hint,
    facts: { node, family: request.family, pools: verdicts.map(({ pool }) => pool.name) },
  });
}

/** Describes how much of the pool is held and why the node cannot use the rest. */
export function whyFull(
  pool: Pool,
  { input, atLimit, node }: { input: Pick<PlanInput, 'view' | 'extraBlocks'>; atLimit: boolean; node: NodeName },
): string {
  const { view, extraBlocks } = input;
  const inside = [...view.owned, ...view.borrowed, ...extraBlocks]
    .map(({ value }) => value)
    .filter(({ cidr }) => cidrContains(pool.cidr, cidr));
  const blocks = [...new Map(inside.map((block) => [formatCidr(block.cidr), block])).values()];
  const held = blocks.reduce((sum, { slots }) => sum + slots.size, 0);
  const reserved = reservedCidrs(view.reservations).filter((cidr) => cidrsOverlap(pool.cidr, cidr));
  const parts = [`${String(held)} of ${String(cidrSize(pool.cidr))} addresses held`];
  if (reserved.length > 0) parts.push(`reserved: ${reserved.map(formatCidr).join(', ')}`);
  if (atLimit) parts.push(`the node owns ${String(view.owned.length)} blocks, its limit`);
  const elsewhere = blocks.some((block) => block.node !== node && block.queue.length > 0);
  if (view.config.strictAffinity && elsewhere) parts.push('blocks of other nodes have room, but strict affinity is on');
  return parts.join(', ');
}
