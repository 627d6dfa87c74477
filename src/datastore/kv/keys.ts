/**
 * The layout of the kv datastore below a prefix (`/netplug/v3`):
 *
 *   resources/<plural>/<name>                     a resource that users write, as JSON
 *   resources/<plural>/<namespace>/<name>         the same of a kind whose resources are in namespaces
 *   leaders/<name>                                the process that leads what the name says, bound to an etcd lease
 *   endpoints/<node>/<namespace>/<name>           a workload endpoint, as JSON
 *   ipam/blocks/<owner>/<family>/<cidr>           a block, as JSON: the truth about its addresses
 *   ipam/claims/<family>/<cidr>                   the owner: a block exists once in the cluster, and this says where
 *   ipam/borrowed/<node>/<family>/<cidr>          which addresses <node> holds of a block it does not own, as JSON:
 *                                                 `{"owner":"<owner>","ordinals":[0,7]}`
 *
 * `<owner>` is `-` for a block without one; a claim is then empty, and a borrowed key names no owner. Claims and borrowed
 * keys are written in the transaction that writes the block, so they always agree with it. They are adjacent, so that one
 * watch of both receives the changes of one transaction together. `<cidr>` is the base address in hexadecimal,
 * `-`, and the prefix length: the order of keys is the order of CIDRs.
 */
import { invariant, isNetplugError } from '../../base/errors.ts';
import { KINDS, type ResourceKind } from '../../model/kinds.ts';
import { fullId, type ResourceId } from '../../model/resource-id.ts';
import type { NodeName } from '../../model/names.ts';
import type { EndpointId } from '../../model/workload-endpoint.ts';
import { bitsOf, FAMILIES, type Family } from '../../net/address.ts';
import { type Cidr, cidrAround, cidrSize } from '../../net/cidr.ts';

export const DEFAULT_PREFIX = '/netplug/v3';

/** The keys from `from` up to, but not including, `to`. */
export interface KeyRange {
  readonly from: string;
  readonly to: string;
}

/** Maps what netplug knows to keys and back. */
export class Keys {
  readonly #prefix: string;

  constructor(prefix: string = DEFAULT_PREFIX) {
    this.#prefix = prefix;
  }

  resource(which: ResourceId): string {
    const { kind, namespace, name } = fullId(which);
    return `${this.#resources(kind)}${namespace === undefined ? '' : `${segment(namespace)}/`}${segment(name)}`;
  }

  /** The resources of one kind, of all namespaces. */
  resources(kind: ResourceKind): KeyRange {
    return below(this.#resources(kind));
  }

  /** The resource of that kind that has the key; undefined for a key that none has. */
  resourceAt<K extends ResourceKind>(key: string, kind: K): ResourceId<K> | undefined {
    const names = key.slice(this.#resources(kind).length).split('/').map(decodeSegment);
    const [namespace, name] = names.length === 2 ? names : [undefined, names[0]];
    if (name === undefined || name === '') return undefined;
    const which: ResourceId<K> = { kind, name, ...(namespace === undefined ? {} : { namespace }) };
    return keyOrNone(() => this.resource(which)) === key ? fullId(which) : undefined;
  }

  leader(name: string): string {
    return `${this.#prefix}/leaders/${segment(name)}`;
  }

  endpoint({ node, namespace, name }: EndpointId): string {
    return `${this.#prefix}/endpoints/${segment(node)}/${segment(namespace)}/${segment(name)}`;
  }

  /** The endpoints of one node, or of all. */
  endpoints(node: string | undefined): KeyRange {
    return below(`${this.#prefix}/endpoints/${node === undefined ? '' : `${segment(node)}/`}`);
  }

  block(cidr: Cidr, owner: NodeName | undefined): string {
    return `${this.#prefix}/ipam/blocks/${ownerSegment(owner)}/${familyAndCidr(cidr)}`;
  }

  /** The blocks of one owner. */
  blocksOf(owner: NodeName): KeyRange {
    return below(`${this.#prefix}/ipam/blocks/${ownerSegment(owner)}/`);
  }

  blocks(): KeyRange {
    return below(`${this.#prefix}/ipam/blocks/`);
  }

  claim(cidr: Cidr): string {
    return `${this.#prefix}/ipam/claims/${familyAndCidr(cidr)}`;
  }

  /** The claims that begin inside the CIDR; a larger one around it may begin before. */
  claimsInside(cidr: Cidr): KeyRange {
    const { family, value } = cidr.base;
    const folder = `${this.#prefix}/ipam/claims/${String(family)}/`;
    const last = value + cidrSize(cidr) - 1n;
    // `.` follows `-`, so that the last address's own claims are still inside.
    return { from: `${folder}${hex(family, value)}`, to: `${folder}${hex(family, last)}.` };
  }

  /** The keys that a claim around the CIDR, larger than it, can have. */
  claimsAround(cidr: Cidr): string[] {
    return Array.from({ length: cidr.prefixBits }, (_, bits) => this.claim(cidrAround(cidr.base, bits)));
  }

  borrowed(node: NodeName, cidr: Cidr): string {
    return `${this.#prefix}/ipam/borrowed/${segment(node)}/${familyAndCidr(cidr)}`;
  }

  borrowedBy(node: NodeName): KeyRange {
    return below(`${this.#prefix}/ipam/borrowed/${segment(node)}/`);
  }

  /** Every claim and borrowed key, and nothing else: where each block is routed to. */
  routing(): KeyRange {
    const { to } = below(`${this.#prefix}/ipam/claims/`);
    return { from: `${this.#prefix}/ipam/borrowed/`, to };
  }

  /** The node that a borrowed key is about; undefined for any other key. */
  borrowerIn(key: string): NodeName | undefined {
    const folder = `${this.#prefix}/ipam/borrowed/`;
    if (!key.startsWith(folder)) return undefined;
    // Only netplug writes these keys, and only with node names.
    return decodeSegment(key.slice(folder.length).split('/')[0] ?? '') as NodeName | undefined;
  }

  #resources(kind: ResourceKind): string {
    return `${this.#prefix}/resources/${KINDS[kind].plural}/`;
  }
}

/** The CIDR that the end of a block, claim or borrowed key names. */
export function cidrOfKey(key: string): Cidr | undefined {
  const match = /\/([46])\/([0-9a-f]+)-(\d{1,3})$/.exec(key);
  const family = FAMILIES.find((known) => String(known) === match?.[1]);
  const [, , base = '', prefix = ''] = match ?? [];
  if (family === undefined || base.length * 4 !== bitsOf(family)) return undefined;
  const prefixBits = Number(prefix);
  const value = BigInt(`0x${base}`);
  if (prefixBits > bitsOf(family)) return undefined;
  const cidr = cidrAround({ family, value }, prefixBits);
  return cidr.base.value === value && key.endsWith(familyAndCidr(cidr)) ? cidr : undefined;
}

/** A damaged record may hold a name that no key can hold. */
export function keyOrNone(make: () => string): string | undefined {
  try {
    return make();
  } catch (cause) {
    if (isNetplugError(cause, 'internal/invariant')) return undefined;
    throw cause;
  }
}

function decodeSegment(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    // Another program wrote a key with an invalid percent escape.
    if (cause instanceof URIError) return undefined;
    throw cause;
  }
}

function below(folder: string): KeyRange {
  // `0` is the character after `/`.
  return { from: folder, to: `${folder.slice(0, -1)}0` };
}

function familyAndCidr({ base, prefixBits }: Cidr): string {
  return `${String(base.family)}/${hex(base.family, base.value)}-${String(prefixBits).padStart(3, '0')}`;
}

function hex(family: Family, value: bigint): string {
  return value.toString(16).padStart(bitsOf(family) / 4, '0');
}

function ownerSegment(owner: NodeName | undefined): string {
  if (owner === undefined) return '-';
  // A node named `-` must not own the blocks without an owner.
  return owner === '-' ? '%2D' : segment(owner);
}

/** Text from outside as one path segment: what it contains can neither end the segment nor be lost. */
function segment(text: string): string {
  invariant(text !== '' && !/\p{Surrogate}/u.test(text), `"${text}" cannot be part of a key`);
  return encodeURIComponent(text);
}
