import { heldAddresses, type HeldAddress } from '../../../model/ip-block.ts';
import type { Node } from '../../../model/node.ts';
import { tunnelAddressesOf } from '../../../model/node-addresses.ts';
import { isTunnelAddress } from '../../../model/tunnel-attachment.ts';
import { formatAddress } from '../../../net/address.ts';
import { nameHolder } from './describe-holder.ts';
import { type IpamFinding, ipamFinding, type IpamState } from './finding.ts';

/** Addresses of tunnel devices that their node does not have, or whose node is gone. */
export function tunnelFindings({ blocks, nodes, nowMs, graceMs }: IpamState): IpamFinding[] {
  if (nodes === undefined) return [];
  const byName = new Map(nodes.map((node) => [node.metadata.name, node]));
  return blocks
    .flatMap((block) => heldAddresses(block, isTunnelAddress))
    .filter(({ allocation }) => nowMs - Date.parse(allocation.at) >= graceMs)
    .flatMap((held) => judge(held, byName.get(held.allocation.node)));
}

function judge({ address, allocation }: HeldAddress, node: Node | undefined): IpamFinding[] {
  const subject = formatAddress(address);
  const tunnels = node === undefined ? [] : tunnelAddressesOf(node).map(formatAddress);
  if (tunnels.includes(subject)) return [];
  const why =
    node === undefined
      ? 'there is no such node'
      : tunnels.length === 0
        ? 'the node has no tunnel address'
        : `the node has ${tunnels.join(' and ')} instead`;
  const found = `address ${subject} of ${nameHolder(allocation)} on node ${allocation.node}: ${why}`;
  return [
    ipamFinding('leaked-address', { subject, found, repair: { kind: 'release', allocation, endpoint: undefined } }),
  ];
}
