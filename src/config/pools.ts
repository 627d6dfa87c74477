import { at, type Findings, foundNotAllowed } from '../base/problem.ts';
import { isDnsSubdomain } from '../model/dns-name.ts';
import { type Family, tryParseAddress } from '../net/address.ts';
import { formatCidr, hostCidr, tryReadCidr } from '../net/cidr.ts';
import type { PoolRef } from './netconf.ts';

/** The path of a list of pools, and its address family. */
export interface PoolList {
  readonly path: string;
  readonly family: Family;
}

/** Decodes a list of pools. An empty list is the same as an absent one. */
export function readPools(
  texts: readonly string[] | undefined,
  { path, family }: PoolList,
  { problems }: Pick<Findings, 'problems'>,
): readonly PoolRef[] | undefined {
  if (texts === undefined || texts.length === 0) return undefined;
  const pools: PoolRef[] = [];
  for (const [index, text] of texts.entries()) {
    const read = readPool(text, family);
    if (typeof read === 'object') pools.push(read);
    else {
      problems.push({ path: at(path, index), message: foundNotAllowed(text, read), code: 'netconf/invalid' });
    }
  }
  return pools;
}

/** Returns the pool, or a text that says what is allowed. */
export function readPool(text: string, family: Family): PoolRef | string {
  if (text.includes('/')) {
    const reading = tryReadCidr(text);
    if (reading === undefined) return 'a pool name or a CIDR';
    if (reading.cidr.base.family !== family) return `an IPv${String(family)} pool; this CIDR is of the other family`;
    if (reading.hostBits) return `a CIDR without host bits, here "${formatCidr(reading.cidr)}"`;
    return { by: 'cidr', cidr: reading.cidr };
  }
  const address = tryParseAddress(text);
  if (address !== undefined) return `a pool name or a CIDR such as "${formatCidr(hostCidr(address))}"`;
  if (/^[\d.]+-[\d.]+$/.test(text)) return 'a pool name or a CIDR, no range';
  if (!isDnsSubdomain(text)) return 'a pool name (lower-case letters, digits, "-" and ".") or a CIDR';
  return { by: 'name', name: text };
}
