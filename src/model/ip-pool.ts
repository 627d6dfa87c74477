import * as v from 'valibot';
import { field, oneOf } from './field.ts';
import { bitsOf, type Family, formatAddress } from '../net/address.ts';
import { type Cidr, cidrsOverlap, formatCidr, parseCidr, tryReadCidr } from '../net/cidr.ts';
import { foundNotAllowed } from '../base/problem.ts';
import { column, jointRules, type KindDeclaration, nameColumn, type Refuse, wide } from './kind-info.ts';
import type { PartialOutput } from './read-schema.ts';
import type { Resource } from './resource.ts';
import { IP_POOL_STATUS_FIELDS, markOf, UNUSABLE_PATH } from './ip-pool-status.ts';
import { CidrText, flag, SelectorText } from './spec-types.ts';

const POOL_USES = ['Workload', 'Tunnel'] as const;
const MODES = ['Never', 'Always', 'CrossSubnet'] as const;
export type PoolUse = (typeof POOL_USES)[number];

const Mode = v.optional(oneOf(MODES), 'Never');

const IP_POOL_FIELDS = {
  cidr: field(CidrText, 'Range of the pool. Cannot be changed.'),
  ipipMode: field(Mode, 'IP-in-IP encapsulation between nodes; IPv4 only.'),
  vxlanMode: field(Mode, 'VXLAN encapsulation between nodes.'),
  natOutgoing: field(
    flag(false),
    'Translates the source of pod traffic to the address of the node when the destination lies outside all pools.',
  ),
  disabled: field(flag(false), 'No new addresses are assigned from this pool; assigned addresses keep working.'),
  disableBGPExport: field(flag(false), 'Keeps routes to this pool out of BGP.'),
  blockSize: field(
    v.optional(v.pipe(v.number('a whole number'), v.integer('a whole number'))),
    'Prefix length of the blocks nodes claim: 26 for IPv4, 122 for IPv6 unless set. Cannot be changed.',
  ),
  nodeSelector: field(v.optional(SelectorText, 'all()'), 'Nodes that may use the pool.'),
  allowedUses: field(
    v.optional(
      v.pipe(
        v.array(oneOf(POOL_USES), 'an array of strings'),
        v.minLength(1, 'at least one of "Workload" and "Tunnel"'),
        v.check((uses) => new Set(uses).size === uses.length, 'each use at most once'),
        v.readonly(),
      ),
      [...POOL_USES],
    ),
    'What addresses of the pool may be used for.',
  ),
};

type WrittenSpec = v.InferOutput<v.ObjectSchema<typeof IP_POOL_FIELDS, undefined>>;
/** A spec with canonical CIDR and every default filled in. */
export type IpPoolSpec = Readonly<Omit<WrittenSpec, 'blockSize'>> & { readonly blockSize: number };
export type IpPool = Resource<'IPPool', IpPoolSpec> & {
  /** Status as it is stored; `markOf` reads it. Only the controllers write it. */
  readonly status?: unknown;
};

/** The allowed prefix lengths of blocks. The largest block has 512 addresses, because datastores limit the size of a record. */
export const BLOCK_SIZES = {
  4: { smallest: 23, largest: 32, default: 26 },
  6: { smallest: 119, largest: 128, default: 122 },
};
const FORBIDDEN_RANGES = {
  unspecified: ['0.0.0.0/8', '::/128'],
  'link-local': ['169.254.0.0/16', 'fe80::/10'],
  loopback: ['127.0.0.0/8', '::1/128'],
  multicast: ['224.0.0.0/4', 'ff00::/8'],
  broadcast: ['255.255.255.255/32'],
  'IPv4-mapped': ['::ffff:0:0/96'],
};
/** The longest text of a CIDR. Without a limit the API server finds the rules below too costly. */
const CIDR_LENGTH = 49;

export const IP_POOL: KindDeclaration<IpPool> = {
  plural: 'ippools',
  shortNames: ['ipp', 'ipps', 'pool', 'pools'],
  scope: 'cluster',
  about: 'A range of addresses for pods and tunnels.',
  enforced: true,
  writtenBy: 'user',
  columns: [
    nameColumn(),
    column('CIDR', 'spec.cidr', ({ spec }) => spec.cidr),
    column('SELECTOR', 'spec.nodeSelector', ({ spec }) => spec.nodeSelector),
    column('UNUSABLE', UNUSABLE_PATH, ({ status }) => markOf(status)?.reason ?? ''),
    wide('NAT', 'spec.natOutgoing', ({ spec }) => String(spec.natOutgoing)),
    wide('IPIPMODE', 'spec.ipipMode', ({ spec }) => spec.ipipMode),
    wide('VXLANMODE', 'spec.vxlanMode', ({ spec }) => spec.vxlanMode),
    wide('BLOCKSIZE', 'spec.blockSize', ({ spec }) => String(spec.blockSize)),
    wide('DISABLED', 'spec.disabled', ({ spec }) => String(spec.disabled)),
    wide('DISABLEBGPEXPORT', 'spec.disableBGPExport', ({ spec }) => String(spec.disableBGPExport)),
    wide('USES', 'spec.allowedUses', ({ spec }) => spec.allowedUses.join(',')),
  ],
  fields: IP_POOL_FIELDS,
  status: IP_POOL_STATUS_FIELDS,
  complete: (spec) => {
    // The field has been validated as a CIDR.
    const family = tryReadCidr(String(spec['cidr']))?.cidr.base.family ?? 4;
    return { ...spec, blockSize: spec['blockSize'] ?? defaultBlockSize(family) };
  },
  check: jointRules(IP_POOL_FIELDS, checkIpPool),
  rules: [
    'One of ipipMode and vxlanMode is `Never`, and ipipMode is `Never` in an IPv6 pool.',
    'A pool that overlaps addresses or networks of nodes, a range of Services or an older pool assigns no addresses.',
    'Pools do not overlap one another, nor unspecified, link-local, loopback, multicast, broadcast and IPv4-mapped addresses.',
    'blockSize is from 23 to 32 for IPv4 and from 119 to 128 for IPv6, and a block fits into the pool unless it is disabled.',
    'cidr and blockSize cannot be changed.',
  ],
  schemaRules: {
    spec: {
      not: {
        required: ['ipipMode', 'vxlanMode'],
        properties: {
          ipipMode: { enum: ['Always', 'CrossSubnet'] },
          vxlanMode: { enum: ['Always', 'CrossSubnet'] },
        },
      },
      'x-kubernetes-validations': [
        {
          rule: "!isCIDR(self.cidr) || cidr(self.cidr).ip().family() == 4 || !has(self.ipipMode) || self.ipipMode == 'Never'",
          message: 'ipipMode is "Never" in an IPv6 pool',
        },
        {
          rule: '!isCIDR(self.cidr) || !has(self.blockSize) || (cidr(self.cidr).ip().family() == 4 ? self.blockSize <= 32 : self.blockSize >= 119)',
          message: 'blockSize is from 23 to 32 for IPv4 and from 119 to 128 for IPv6',
        },
        {
          rule: '!isCIDR(self.cidr) || (has(self.disabled) && self.disabled) || cidr(self.cidr).prefixLength() <= (has(self.blockSize) ? self.blockSize : cidr(self.cidr).ip().family() == 4 ? 26 : 122)',
          message: 'a block does not fit into the pool; give it a larger blockSize',
        },
        {
          rule: '!has(oldSelf.blockSize) || (has(self.blockSize) && self.blockSize == oldSelf.blockSize)',
          message: 'blockSize cannot be changed; create another pool and disable this one',
        },
      ],
    },
    properties: {
      // Rules of the field itself, so that a pool that breaks one can still be disabled.
      cidr: {
        maxLength: CIDR_LENGTH,
        'x-kubernetes-validations': [
          // The library of the API server takes no IPv4-mapped addresses.
          { rule: 'isCIDR(self)', message: 'is not a CIDR for pods' },
          ...Object.entries(FORBIDDEN_RANGES).flatMap(([kind, ranges]) =>
            (kind === 'IPv4-mapped' ? [] : ranges).map((range) => ({
              rule: `!isCIDR(self) || !(cidr(self).containsIP('${baseOf(range)}') || cidr('${range}').containsIP(cidr(self).ip()))`,
              message: `overlaps the ${kind} addresses ${range}`,
              reason: 'FieldValueForbidden',
            })),
          ),
          {
            rule: 'self == oldSelf || (isCIDR(self) && isCIDR(oldSelf) && cidr(self).containsCIDR(oldSelf) && cidr(oldSelf).containsCIDR(self))',
            message: 'cannot be changed; create another pool and disable this one',
            reason: 'FieldValueForbidden',
          },
        ],
      },
      blockSize: { minimum: 23, maximum: 128 },
    },
  },
  example: {
    metadata: { name: 'default-ipv4' },
    spec: { cidr: '10.244.0.0/16', ipipMode: 'CrossSubnet', natOutgoing: true, nodeSelector: "zone == 'a'" },
  },
};

function checkIpPool(spec: PartialOutput<typeof IP_POOL_FIELDS>, refuse: Refuse): void {
  const isIpip = (spec.ipipMode ?? 'Never') !== 'Never';
  if (isIpip && (spec.vxlanMode ?? 'Never') !== 'Never')
    refuse('vxlanMode', 'excludes ipipMode: one of them must be "Never"');
  const cidr = spec.cidr === undefined ? undefined : tryReadCidr(spec.cidr)?.cidr;
  if (cidr === undefined) return;
  const { family } = cidr.base;
  if (isIpip && family === 6) refuse('ipipMode', foundNotAllowed(spec.ipipMode, '"Never" for an IPv6 pool'));
  for (const [kind, ranges] of Object.entries(FORBIDDEN_RANGES)) {
    const range = ranges.find((text) => cidrsOverlap(parseCidr(text), cidr));
    if (range !== undefined) refuse('cidr', `${formatCidr(cidr)} overlaps the ${kind} addresses ${range}`);
  }
  checkBlockSize({ cidr, blockSize: spec.blockSize ?? defaultBlockSize(family), disabled: spec.disabled }, refuse);
}

/** Returns the first address of a range, as text. */
function baseOf(range: string): string {
  return formatAddress(parseCidr(range).base);
}

function defaultBlockSize(family: Family): number {
  return BLOCK_SIZES[family].default;
}

function checkBlockSize(
  { cidr, blockSize, disabled }: { cidr: Cidr; blockSize: number; disabled: boolean | undefined },
  refuse: Refuse,
): void {
  const { smallest, largest } = BLOCK_SIZES[cidr.base.family];
  if (blockSize < smallest || blockSize > largest) {
    const range = `from ${String(smallest)} to ${String(largest)} for an IPv${String(cidr.base.family)} pool`;
    refuse('blockSize', foundNotAllowed(blockSize, `a whole number ${range}`));
  } else if (blockSize < cidr.prefixBits && disabled !== true) {
    const bits = `a /${String(blockSize)} block does not fit into ${formatCidr(cidr)}`;
    const allBits = bitsOf(cidr.base.family);
    refuse('blockSize', `${bits}; allowed is ${String(cidr.prefixBits)} to ${String(allBits)}`);
  }
}
