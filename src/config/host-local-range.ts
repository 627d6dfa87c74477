import { didYouMean } from '../base/near-miss.ts';
import { at, foundNotAllowed, type Problem } from '../base/problem.ts';
import { type Address, bitsOf, type Family, tryParseAddress } from '../net/address.ts';
import { type Cidr, cidrContains, cidrSize, formatCidr, tryReadCidr } from '../net/cidr.ts';

const POD_CIDRS = { usePodCidr: 4, usePodCidrIPv6: 6 } as const satisfies Record<string, Family>;
type PodCidr = keyof typeof POD_CIDRS;
export const QUOTED_POD_CIDR_WORDS = '"usePodCidr" and "usePodCidrIPv6"';

export interface RangeText {
  readonly subnet?: string | undefined;
  readonly rangeStart?: string | undefined;
  readonly rangeEnd?: string | undefined;
  readonly gateway?: string | undefined;
}

/** The parts of a range that could be decoded. */
export interface ReadRange {
  readonly path: string;
  readonly family: Family | undefined;
  readonly podCidr: PodCidr | undefined;
  readonly first: bigint | undefined;
  readonly last: bigint | undefined;
}

/** Returns the special word, in any letter case. */
export function podCidrWord(text: string): PodCidr | undefined {
  const lower = text.toLowerCase();
  if (lower === 'usepodcidr') return 'usePodCidr';
  return lower === 'usepodcidripv6' ? 'usePodCidrIPv6' : undefined;
}

export function readRange(range: RangeText, path: string, problems: Problem[]): ReadRange {
  const subnet = readSubnet(range.subnet, at(path, 'subnet'), problems);
  const cidr = typeof subnet === 'object' ? subnet : undefined;
  const start = readAddress(range.rangeStart, { path: at(path, 'rangeStart'), cidr }, problems);
  const end = readAddress(range.rangeEnd, { path: at(path, 'rangeEnd'), cidr }, problems);
  readAddress(range.gateway, { path: at(path, 'gateway'), cidr: undefined }, problems);
  if (start !== undefined && end !== undefined && start.family === end.family && start.value > end.value) {
    problems.push({ path: at(path, 'rangeEnd'), message: 'lies before rangeStart', code: 'netconf/invalid' });
  }
  const podCidr = typeof subnet === 'string' ? subnet : undefined;
  const lastOfCidr = cidr === undefined ? undefined : cidr.base.value + cidrSize(cidr) - 1n;
  return {
    path,
    family: cidr?.base.family ?? (podCidr === undefined ? undefined : POD_CIDRS[podCidr]),
    podCidr,
    first: start?.value ?? cidr?.base.value,
    last: end?.value ?? lastOfCidr,
  };
}

/** Reports whether both ranges contain the same address. A whole pod CIDR overlaps itself, although its range is unknown. */
export function overlaps(a: ReadRange, b: ReadRange): boolean {
  if (a.family === undefined || a.family !== b.family) return false;
  if (a.first === undefined || a.last === undefined || b.first === undefined || b.last === undefined) {
    const areWholeSubnets =
      a.first === undefined && a.last === undefined && b.first === undefined && b.last === undefined;
    return areWholeSubnets && a.podCidr !== undefined && a.podCidr === b.podCidr;
  }
  return a.first <= b.last && b.first <= a.last;
}

function readSubnet(text: string | undefined, path: string, problems: Problem[]): Cidr | PodCidr | undefined {
  if (text === undefined) return undefined;
  const refuse = (allowed: string, hint?: string): undefined => {
    const message = foundNotAllowed(text, allowed);
    problems.push({ path, message, code: 'netconf/invalid', ...(hint === undefined ? {} : { hint }) });
  };
  const word = podCidrWord(text);
  if (word !== undefined && word === text) return word;
  if (word !== undefined) return refuse(QUOTED_POD_CIDR_WORDS.replace('and', 'or'), didYouMean(word));
  const reading = tryReadCidr(text);
  if (reading === undefined) return refuse('a CIDR, "usePodCidr" or "usePodCidrIPv6"');
  if (reading.hostBits) return refuse(`a CIDR without host bits, here "${formatCidr(reading.cidr)}"`);
  const smallest = bitsOf(reading.cidr.base.family) - 2;
  if (reading.cidr.prefixBits > smallest) return refuse(`a CIDR with a prefix of at most ${String(smallest)} bits`);
  return reading.cidr;
}

function readAddress(
  text: string | undefined,
  { path, cidr }: { path: string; cidr: Cidr | undefined },
  problems: Problem[],
): Address | undefined {
  if (text === undefined || text === '') return undefined;
  const address = tryParseAddress(text);
  if (address !== undefined && (cidr === undefined || cidrContains(cidr, address))) return address;
  let allowed = cidr === undefined ? 'an IP address' : `an IP address in ${formatCidr(cidr)}`;
  if (podCidrWord(text) !== undefined) allowed += `; ${QUOTED_POD_CIDR_WORDS} may only be the value of "subnet"`;
  problems.push({ path, message: foundNotAllowed(text, allowed), code: 'netconf/invalid' });
  return undefined;
}
