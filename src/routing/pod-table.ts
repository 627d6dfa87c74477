import { HOST_LINK_PREFIX, type SourceCheck } from '../dataplane/kernel.ts';
import type { FilterChain, FilterMatch, FilterTable } from '../dataplane/policy-filter.ts';
import { parseCidr } from '../net/cidr.ts';
import { ACCEPT, COMES_FROM_OUTSIDE, COMES_FROM_POD, DROP, rule } from './filter-parts.ts';

export const POD_TABLE = 'netplug-pods';

const LOOPBACK = [parseCidr('127.0.0.0/8')];
/** Duplicate address detection sends from the unspecified address. */
const IS_DETECTION: readonly FilterMatch[] = [
  { kind: 'nets', side: 'source', family: 6, nets: [parseCidr('::/128')] },
  { kind: 'nets', side: 'destination', family: 6, nets: [parseCidr('ff02::/16')] },
];

const FROM_OUTSIDE: FilterChain = {
  hook: { type: 'filter', hook: 'forward', priority: 0 },
  rules: [
    rule('translated', { kind: 'translated' }, ACCEPT),
    rule('own-source', COMES_FROM_OUTSIDE, { kind: 'source route', name: `${HOST_LINK_PREFIX}*` }, DROP),
  ],
};

/**
 * Renders the table that filters packets from pods of the node. Drops loopback addresses, which could reach the host when
 * portmap or kube-proxy enables `route_localnet`. Does not affect connections that the host translates from or to a
 * loopback address, because they have another address on the link. The strict check also drops foreign source addresses, and
 * what comes from outside to a pod with the address of a pod of this node, unless the host translates its destination.
 */
export function renderPodTable(sourceCheck: SourceCheck): FilterTable {
  const loopback = (['source', 'destination'] as const).map((side) =>
    rule(`loopback-${side}`, COMES_FROM_POD, { kind: 'nets', side, family: 4, nets: LOOPBACK }, DROP),
  );
  const strict = [
    rule('detection', COMES_FROM_POD, ...IS_DETECTION, ACCEPT),
    rule('foreign-source', COMES_FROM_POD, { kind: 'foreign source' }, DROP),
  ];
  return {
    name: POD_TABLE,
    chains: new Map([
      [
        'prerouting',
        {
          // Before connection tracking, which may translate the addresses that the pod sent.
          hook: { type: 'filter', hook: 'prerouting', priority: -300 },
          rules: [...loopback, ...(sourceCheck === 'strict' ? strict : [])],
        },
      ],
      ...(sourceCheck === 'strict' ? [['forward', FROM_OUTSIDE] as const] : []),
    ]),
    sets: new Map(),
  };
}
