import type { FlowEnd, TrackedFlow } from '../dataplane/flow-table.ts';
import { type Address, bitsOf, formatAddress, tryParseAddress } from '../net/address.ts';
import { type Cidr, cidrContains, outermostCidrs, tryReadRange } from '../net/cidr.ts';
import { floatingMaps } from './nat-floating.ts';
import type { NatInput } from './nat-table.ts';
import type { TranslationChange } from './translation-change.ts';

const TCP = 6;
/** The first bits of multicast addresses: 224.0.0.0/4 and ff00::/8. */
const MULTICAST = { 4: { bits: 4, prefix: 0xen }, 6: { bits: 8, prefix: 0xffn } } as const;

/** Returns the places of addresses by which the flows are found that a change of these addresses makes stale. */
export function endsOfChange({ floating, pods }: TranslationChange): readonly FlowEnd[] {
  return [
    ...addressesOf(floating).flatMap((address): FlowEnd[] => [
      { direction: 'original', side: 'destination', address },
      { direction: 'reply', side: 'destination', address },
    ]),
    ...addressesOf(pods).map((address): FlowEnd => ({ direction: 'original', side: 'source', address })),
  ];
}

/**
 * Returns a function that reports whether the kernel would translate the first packet of the flow otherwise now. A connection
 * of TCP that was answered keeps the source with which it began, because neither of its ends could go on with another one,
 * unless that is a floating address that the pod has no longer. What another program translates is not stale.
 * `hostAddresses` are canonical texts.
 */
export function staleFlows(
  input: NatInput,
  change: Pick<TranslationChange, 'floating' | 'lostPools'>,
  hostAddresses: ReadonlySet<string>,
): (flow: TrackedFlow) => boolean {
  const { inside, outside } = floatingMaps(input.floating);
  const floating = change.floating.union(new Set(inside.keys()));
  const lostPools = [...change.lostPools].flatMap((text) => tryReadRange(text) ?? []);
  const allPools = outermostCidrs(input.allPools);
  const leavesNode = (address: Address): boolean =>
    !isIn(allPools, address) && !isMulticast(address) && !hostAddresses.has(formatAddress(address));
  return ({ original, reply, isReplied, isUnsettled }) => {
    const [sent, arrived] = [formatAddress(original.destination), formatAddress(reply.source)];
    if (floating.has(sent) && arrived !== (inside.get(sent) ?? sent)) return true;
    const [source, shown] = [formatAddress(original.source), formatAddress(reply.destination)];
    if (shown !== source && floating.has(shown)) return outside.get(source) !== shown;
    if (original.protocol === TCP && isReplied && isUnsettled !== true) return false;
    if (!leavesNode(reply.source)) return false;
    if (outside.has(source)) return true;
    if (isIn(input.natPools, original.source)) return shown === source;
    return shown !== source && hostAddresses.has(shown) && isIn(lostPools, original.source);
  };
}

function addressesOf(texts: Iterable<string>): readonly Address[] {
  return [...texts].flatMap((text) => tryParseAddress(text) ?? []);
}

function isIn(networks: readonly Cidr[], address: Address): boolean {
  return networks.some((network) => cidrContains(network, address));
}

function isMulticast({ family, value }: Address): boolean {
  const { bits, prefix } = MULTICAST[family];
  return value >> BigInt(bitsOf(family) - bits) === prefix;
}
