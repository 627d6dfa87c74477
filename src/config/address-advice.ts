import { type Address, FAMILIES, formatAddress, tryParseAddress } from '../net/address.ts';
import { cidrContains, cidrSize, formatCidr, hostCidr, tryReadCidr } from '../net/cidr.ts';
import { isDnsSubdomain } from '../model/dns-name.ts';
import { isRecord } from '../model/read-schema.ts';

type Keys = readonly (string | number)[];

interface Around {
  readonly keys: Keys;
  readonly valueAt: (keys: Keys) => unknown;
}

/** Returns a suggestion for an address, a CIDR, a pool or a range that is not allowed. */
export function adviceOnAddress(found: unknown, { keys, valueAt }: Around): string | undefined {
  const [key, parent] = [keys.at(-1), keys.at(-2)];
  if (key === 'ranges' || parent === 'ranges') return adviceOnRanges(found);
  if (parent === 'routes' && typeof found === 'string') return `write ${JSON.stringify({ dst: found })}`;
  if (typeof found !== 'string') return undefined;
  if (parent === 'ipv4_pools' || parent === 'ipv6_pools') return adviceOnPool(found, parent);
  if (key === 'subnet') return /podcidr/i.test(found) ? 'write "usePodCidr"' : adviceOnSubnet(found);
  if (key === 'dst') return adviceOnDestination(found);
  const isAddress = ['rangeStart', 'rangeEnd', 'gateway'].includes(String(key));
  return isAddress ? adviceOnAddressInSubnet(found, valueAt([...keys.slice(0, -1), 'subnet'])) : undefined;
}

function adviceOnRanges(found: unknown): string | undefined {
  const ranges = Array.isArray(found) ? found : [found];
  return ranges.length > 0 && ranges.every(isRecord) ? `write ${JSON.stringify([ranges])}` : undefined;
}

function adviceOnPool(found: string, list: 'ipv4_pools' | 'ipv6_pools'): string | undefined {
  const cidr = meantCidr(found);
  const family = list === 'ipv4_pools' ? 4 : 6;
  const other = FAMILIES.find((each) => each !== family);
  const read = tryReadCidr(found);
  if (read !== undefined && read.cidr.base.family === other) return `move it to ipam.ipv${String(other)}_pools`;
  if (cidr !== undefined) return `write "${cidr}"`;
  const name = found
    .trim()
    .toLowerCase()
    .replaceAll(/[_\s]+/g, '-');
  return isDnsSubdomain(name) ? `write "${name}" if that is the name of the pool` : undefined;
}

function adviceOnSubnet(found: string): string | undefined {
  const address = tryParseAddress(found);
  const meant = address === undefined ? meantCidr(found) : `${found}/${address.family === 4 ? '24' : '64'}`;
  const isGuess = address !== undefined;
  return meant === undefined ? undefined : `write ${isGuess ? 'the prefix length too, such as ' : ''}"${meant}"`;
}

function adviceOnDestination(found: string): string | undefined {
  if (/^(default|any|all)$/i.test(found)) return 'write "0.0.0.0/0", or "::/0" for IPv6';
  const address = tryParseAddress(found);
  const meant = address === undefined ? meantCidr(found) : formatCidr(hostCidr(address));
  return meant === undefined ? undefined : `write "${meant}"`;
}

/** Suggests an address for one with a prefix length or leading zeros, or for its last number alone. */
function adviceOnAddressInSubnet(found: string, subnet: unknown): string | undefined {
  const cidr = typeof subnet === 'string' ? tryReadCidr(subnet)?.cidr : undefined;
  const bare = found.replace(/\/\d+$/, '').replaceAll(/(^|\.)0+(?=\d)/g, '$1');
  const [, network = ''] = /^(\d+\.\d+\.\d+\.)/.exec(typeof subnet === 'string' ? subnet : '') ?? [];
  const address = tryParseAddress(/^\d{1,3}$/.test(bare) ? network + bare : bare);
  if (address === undefined || (cidr !== undefined && !cidrContains(cidr, address))) return undefined;
  return `write "${formatAddress(address)}"`;
}

/** Returns the CIDR that a text with a netmask, or with first and last address, means. */
function meantCidr(text: string): string | undefined {
  const [first = '', behind = ''] = text.split(/\s*[-/]\s*/);
  const [base, other] = [tryParseAddress(first), tryParseAddress(behind)];
  if (base === undefined || other === undefined || base.family !== other.family) return undefined;
  return text.includes('/') ? withNetmask(base, other) : withLastAddress(base, other);
}

function withNetmask(base: Address, mask: Address): string | undefined {
  const bits = mask.value.toString(2).padStart(32, '0');
  const [ones] = /^1*(?=0*$)/.exec(bits) ?? [];
  return ones === undefined || base.family !== 4
    ? undefined
    : formatted(`${formatAddress(base)}/${String(ones.length)}`);
}

function withLastAddress(first: Address, last: Address): string | undefined {
  const size = last.value - first.value + 1n;
  const bits = hostCidr(first).prefixBits - (size.toString(2).length - 1);
  const cidr = tryReadCidr(`${formatAddress(first)}/${String(bits)}`);
  const isExact = cidr !== undefined && !cidr.hostBits && size > 0n && cidrSize(cidr.cidr) === size;
  return isExact ? formatCidr(cidr.cidr) : undefined;
}

function formatted(text: string): string | undefined {
  const read = tryReadCidr(text);
  return read === undefined ? undefined : formatCidr(read.cidr);
}
