import { NetplugError } from '../base/errors.ts';
import { type Address, bitsOf, tryParseAddress } from '../net/address.ts';
import { type Cidr, tryReadCidr } from '../net/cidr.ts';

/** Method of detecting the node's address of one family. A pattern matches any part of an interface name. */
export type Detection =
  /** Use no address of the family. */
  | { readonly kind: 'none' }
  | { readonly kind: 'first-found' }
  /** The source address that the host uses to reach the target. */
  | { readonly kind: 'can-reach'; readonly target: Address }
  /** In the order of the patterns. */
  | { readonly kind: 'interface'; readonly patterns: readonly RegExp[] }
  | { readonly kind: 'skip-interface'; readonly patterns: readonly RegExp[] }
  /** In the order of the CIDRs. */
  | { readonly kind: 'cidr'; readonly cidrs: readonly Cidr[] }
  /** The InternalIP of the orchestrator's Node. */
  | { readonly kind: 'orch-internal-ip' }
  | { readonly kind: 'literal'; readonly address: Address; readonly prefixBits: number | undefined };

const WORDS = { none: 'none', 'first-found': 'first-found', 'orch-internal-ip': 'orch-internal-ip' } as const;

const ALLOWED = [
  'first-found',
  'can-reach=<address>',
  'interface=<regex>,…',
  'skip-interface=<regex>,…',
  'cidr=<cidr>,…',
  'orch-internal-ip',
  '<address>',
  '<address>/<prefix>',
  'none',
] as const;

/** Parses a detection method; an empty text means `first-found`. @throws agent/detection-invalid */
export function readDetection(text: string): Detection {
  const method = text.trim();
  if (method === '') return { kind: 'first-found' };
  if (isWord(method)) return { kind: WORDS[method] };
  const [, name = '', list = ''] = /^([a-z-]+)=(.*)$/.exec(method) ?? [];
  switch (name) {
    case 'can-reach':
      return { kind: 'can-reach', target: tryParseAddress(list) ?? refuse(method, `"${list}" is no IP address`) };
    case 'interface':
    case 'skip-interface':
      return { kind: name, patterns: itemsOf(method, list).map((item) => readPattern(method, item)) };
    case 'cidr':
      return { kind: 'cidr', cidrs: itemsOf(method, list).map((item) => readCidr(method, item)) };
    default:
      return readLiteral(method);
  }
}

function readLiteral(method: string): Detection {
  const reading = tryReadCidr(method);
  if (reading === undefined) {
    const address = tryParseAddress(method) ?? refuse(method, 'it is neither an address nor a known method');
    return { kind: 'literal', address, prefixBits: undefined };
  }
  const { address, cidr } = reading;
  if (!reading.hostBits && cidr.prefixBits < bitsOf(address.family)) {
    refuse(method, 'it is a network, not an address of the node');
  }
  return { kind: 'literal', address, prefixBits: cidr.prefixBits };
}

function itemsOf(method: string, list: string): readonly string[] {
  const items = list.split(',').map((item) => item.trim());
  return items.includes('') ? refuse(method, 'the list contains an empty item') : items;
}

function readPattern(method: string, item: string): RegExp {
  try {
    return new RegExp(item);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    return refuse(method, `"${item}" is no regular expression`);
  }
}

function readCidr(method: string, item: string): Cidr {
  return tryReadCidr(item)?.cidr ?? refuse(method, `"${item}" is no CIDR`);
}

function isWord(method: string): method is keyof typeof WORDS {
  return Object.hasOwn(WORDS, method);
}

function refuse(found: string, reason: string): never {
  throw new NetplugError('agent/detection-invalid', `Cannot detect the address of the node by "${found}": ${reason}`, {
    hint: `Write one of ${ALLOWED.join(', ')}`,
    facts: { found, allowed: ALLOWED },
  });
}
