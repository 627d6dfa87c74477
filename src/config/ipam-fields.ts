import * as v from 'valibot';
import { field, objectWith } from '../model/field.ts';
import { YesNo } from './field-types.ts';

const PoolList = v.optional(v.array(v.string('a pool name or a CIDR, as a string'), 'an array of strings'));
const OptionalString = v.optional(v.string('a string'));

/** One range of `host-local`. host-local.ts checks combinations of fields. */
export const RangeSchema = objectWith('"subnet"', {
  subnet: field(v.string('a CIDR, "usePodCidr" or "usePodCidrIPv6"'), 'Where addresses come from.'),
  rangeStart: field(OptionalString, 'First address handed out.'),
  rangeEnd: field(OptionalString, 'Last address handed out.'),
  gateway: field(OptionalString, 'Ignored.'),
});

export const RouteSchema = objectWith('"dst"', {
  dst: field(v.string('a CIDR'), 'Destination.'),
  gw: field(OptionalString, 'Ignored: the next hop is always the link-local address of netplug.'),
});

export const TYPE_FIELD = {
  type: field(
    v.string('the name of an address manager, such as "netplug-ipam" or "host-local"'),
    '`netplug-ipam`, or `host-local`.',
  ),
};

export const POOL_FIELDS = {
  assign_ipv4: field(v.optional(YesNo, 'true'), 'Whether a pod gets an IPv4 address. A string.'),
  assign_ipv6: field(v.optional(YesNo, 'false'), 'Whether a pod gets an IPv6 address. A string.'),
  ipv4_pools: field(PoolList, 'IPv4 pools to use, by name or CIDR; every available pool unless set.'),
  ipv6_pools: field(PoolList, 'IPv6 pools to use, by name or CIDR; only when `assign_ipv6` is `"true"`.'),
};

export const HOST_LOCAL_FIELDS = {
  subnet: field(OptionalString, '`host-local` only: one range in short.'),
  ranges: field(
    v.optional(
      v.array(
        v.pipe(v.array(RangeSchema, 'an array of ranges'), v.minLength(1, 'at least one range')),
        'an array of arrays of ranges',
      ),
    ),
    '`host-local` only: sets of ranges; a pod gets one address from each set.',
  ),
  routes: field(
    v.optional(v.array(RouteSchema, 'an array of routes')),
    '`host-local` only: routes of the pod, instead of the default routes.',
  ),
  rangeStart: field(OptionalString, '`host-local` only: belongs to `subnet`.'),
  rangeEnd: field(OptionalString, '`host-local` only: belongs to `subnet`.'),
  gateway: field(OptionalString, 'Ignored.'),
  dataDir: field(OptionalString, '`host-local` only: where it keeps its files.'),
  resolvConf: field(OptionalString, '`host-local` only: file whose DNS settings are reported.'),
};

export const IPAM_FIELDS = { ...TYPE_FIELD, ...POOL_FIELDS, ...HOST_LOCAL_FIELDS };
