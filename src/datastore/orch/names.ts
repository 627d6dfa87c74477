import { sha256Of } from '../../base/sha256.ts';
import { isLabelValue } from '../../model/metadata.ts';
import type { NodeName } from '../../model/names.ts';
import { addressBytes, addressFromBytes } from '../../net/address.ts';
import { type Cidr, cidrAround, sameCidr } from '../../net/cidr.ts';

/** The owner of a block, for users who list blocks by node. */
export const NODE_LABEL = 'netplug/node';
/** The owner in full, where a label cannot hold it. */
export const NODE_ANNOTATION = 'netplug/node-name';
/** The ordinals that nodes other than the owner hold, by node, as JSON. */
export const BORROWED_ANNOTATION = 'netplug/borrowed';
const HOLDER_LABEL = 'netplug/holder.';

/** `10.0.0.0/26` is `10-0-0-0-26`; IPv6 has all its groups, so that one CIDR has one name. */
export function blockObjectName({ base, prefixBits }: Cidr): string {
  const bytes = [...addressBytes(base)];
  const parts = base.family === 4 ? bytes.map(String) : groupsOf(bytes);
  return [...parts, String(prefixBits)].join('-');
}

/** The CIDR that an object's name stands for; undefined when it stands for none. */
export function cidrOfBlockName(name: string): Cidr | undefined {
  const parts = name.split('-');
  const bits = Number(parts.pop());
  const bytes = parts.length === 4 ? parts.map(Number) : parts.flatMap(bytesOfGroup);
  if (![4, 16].includes(bytes.length) || !bytes.every((byte) => byte >= 0 && byte <= 255)) return undefined;
  if (!Number.isInteger(bits) || bits < 0 || bits > bytes.length * 8) return undefined;
  const cidr = cidrAround(addressFromBytes(Uint8Array.from(bytes)), bits);
  // Leading zeros, host bits and the like: another name than ours for the same range.
  return blockObjectName(cidr) === name ? cidr : undefined;
}

/** Returns the value of the owner label. A name that is no valid label is hashed; the block has the full name. */
export function nodeLabelValue(node: NodeName): string {
  return isLabelValue(node) ? node : `sha256-${hashOf(node)}`;
}

/** The label a block carries for each node that owns it or holds an address of it: one selector finds them all. */
export function holderLabel(node: NodeName): string {
  return `${HOLDER_LABEL}${hashOf(node)}`;
}

/** Returns the labels of holders among the labels of a block. */
export function holderLabelsIn(labels: Readonly<Record<string, string>>): readonly string[] {
  return Object.keys(labels).filter((label) => label.startsWith(HOLDER_LABEL));
}

export function sameBlockName(name: string, cidr: Cidr): boolean {
  const named = cidrOfBlockName(name);
  return named !== undefined && sameCidr(named, cidr);
}

function hashOf(text: string): string {
  return sha256Of(text).slice(0, 40);
}

function groupsOf(bytes: readonly number[]): string[] {
  return Array.from({ length: bytes.length / 2 }, (_, index) =>
    bytes
      .slice(2 * index, 2 * index + 2)
      .map((byte) => byte.toString(16).padStart(2, '0'))
      .join(''),
  );
}

function bytesOfGroup(group: string): number[] {
  if (!/^[0-9a-f]{4}$/.test(group)) return [-1];
  return [Number.parseInt(group.slice(0, 2), 16), Number.parseInt(group.slice(2), 16)];
}
