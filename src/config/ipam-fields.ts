import * as v from 'valibot';
import { YesNo } from './field-types.ts';

const PoolList = v.optional(v.array(v.string('a pool name or a CIDR, as a string'), 'an array of strings'));
const OptionalString = v.optional(v.string('a string'));

/** One range of `host-local`. host-local.ts checks combinations of fields. */
export const RangeSchema = v.looseObject(
  {
    subnet: v.pipe(v.string('a CIDR, "usePodCidr" or "usePodCidrIPv6"'), v.description('Where addresses come from.')),
    rangeStart: v.pipe(OptionalString, v.description('First address handed out.')),
    rangeEnd: v.pipe(OptionalString, v.description('Last address handed out.')),
    gateway: v.pipe(OptionalString, v.description('Ignored.')),
  },
  'an object with "subnet"',
);

export const RouteSchema = v.looseObject(
  {
    dst: v.pipe(v.string('a CIDR'), v.description('Destination.')),
    gw: v.pipe(OptionalString, v.description('Ignored: the next hop is always the link-local address of netplug.')),
  },
  'an object with "dst"',
);

export const TYPE_FIELD = {
  type: v.pipe(
    v.string('the name of an address manager, such as "netplug-ipam" or "host-local"'),
    v.description('`netplug-ipam`, or `host-local`.'),
  ),
};

export const POOL_FIELDS = {
  assign_ipv4: v.pipe(v.optional(YesNo, 'true'), v.description('Whether a pod gets an IPv4 address. A string.')),
  assign_ipv6: v.pipe(v.optional(YesNo, 'false'), v.description('Whether a pod gets an IPv6 address. A string.')),
  ipv4_pools: v.pipe(PoolList, v.description('IPv4 pools to use, by name or CIDR; every available pool unless set.')),
  ipv6_pools: v.pipe(
    PoolList,
    v.description('IPv6 pools to use, by name or CIDR; only when `assign_ipv6` is `"true"`.'),
  ),
};

export const HOST_LOCAL_FIELDS = {
  subnet: v.pipe(OptionalString, v.description('`host-local` only: one range in short.')),
  ranges: v.pipe(
    v.optional(
      v.array(
        v.pipe(v.array(RangeSchema, 'an array of ranges'), v.minLength(1, 'at least one range')),
        'an array of arrays of ranges',
      ),
    ),
    v.description('`host-local` only: sets of ranges; a pod gets one address from each set.'),
  ),
  routes: v.pipe(
    v.optional(v.array(RouteSchema, 'an array of routes')),
    v.description('`host-local` only: routes of the pod, instead of the default routes.'),
  ),
  rangeStart: v.pipe(OptionalString, v.description('`host-local` only: belongs to `subnet`.')),
  rangeEnd: v.pipe(OptionalString, v.description('`host-local` only: belongs to `subnet`.')),
  gateway: v.pipe(OptionalString, v.description('Ignored.')),
  dataDir: v.pipe(OptionalString, v.description('`host-local` only: where it keeps its files.')),
  resolvConf: v.pipe(OptionalString, v.description('`host-local` only: file whose DNS settings are reported.')),
};

export const IPAM_FIELDS = { ...TYPE_FIELD, ...POOL_FIELDS, ...HOST_LOCAL_FIELDS };
