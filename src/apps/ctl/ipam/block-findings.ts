import { blockFaults, heldAddresses, type IpBlock } from '../../../model/ip-block.ts';
import type { IpPool } from '../../../model/ip-pool.ts';
import { formatAddress } from '../../../net/address.ts';
import { cidrContains, cidrsOverlap, compareCidrs, formatCidr, parseCidr } from '../../../net/cidr.ts';
import { nameHolder, nameOwner } from './describe-holder.ts';
import { type IpamFinding, ipamFinding } from './finding.ts';

/** Finds inconsistencies of the blocks themselves. */
export function blockFindings(blocks: readonly IpBlock[], pools: readonly IpPool[]): IpamFinding[] {
  return [...blocks.flatMap((block) => oneBlock(block, pools)), ...overlaps(blocks), ...heldInTwoBlocks(blocks)];
}

function oneBlock(block: IpBlock, pools: readonly IpPool[]): IpamFinding[] {
  const subject = formatCidr(block.cidr);
  const findings = blockFaults(block).map((fault) =>
    ipamFinding('block-fault', { subject, found: `block ${subject}: ${fault}` }),
  );
  const owner = nameOwner(block.node);
  const pool = pools.find(({ spec }) => cidrContains(parseCidr(spec.cidr), block.cidr));
  if (pool === undefined) {
    const found = `block ${subject} of ${owner} lies in no pool; ${String(block.slots.size)} of its addresses are held`;
    findings.push(ipamFinding('block-outside-pools', { subject, found }));
  } else if (pool.spec.blockSize !== block.cidr.prefixBits) {
    const found = `block ${subject} of ${owner} has another size than /${String(pool.spec.blockSize)} of pool "${pool.metadata.name}"`;
    findings.push(ipamFinding('block-size', { subject, found }));
  }
  return findings;
}

/** Finds overlapping blocks. In the order of CIDRs, blocks that overlap are adjacent. */
function overlaps(blocks: readonly IpBlock[]): IpamFinding[] {
  const sorted = [...blocks].sort((a, b) => compareCidrs(a.cidr, b.cidr));
  const findings: IpamFinding[] = [];
  for (const [index, { cidr }] of sorted.entries()) {
    for (const other of sorted.slice(index + 1)) {
      if (!cidrsOverlap(cidr, other.cidr)) break;
      const [subject, inner] = [formatCidr(cidr), formatCidr(other.cidr)];
      findings.push(
        ipamFinding('overlapping-blocks', { subject: inner, found: `block ${inner} overlaps block ${subject}` }),
      );
    }
  }
  return findings;
}

function heldInTwoBlocks(blocks: readonly IpBlock[]): IpamFinding[] {
  const holders = new Map<string, string[]>();
  for (const block of blocks) {
    for (const { address, allocation } of heldAddresses(block)) {
      const text = formatAddress(address);
      const holder = `${nameHolder(allocation)} in block ${formatCidr(block.cidr)}`;
      holders.set(text, [...(holders.get(text) ?? []), holder]);
    }
  }
  return [...holders]
    .filter(([, by]) => by.length > 1)
    .map(([subject, by]) =>
      ipamFinding('address-held-twice', { subject, found: `address ${subject} is held by ${by.join(' and by ')}` }),
    );
}
