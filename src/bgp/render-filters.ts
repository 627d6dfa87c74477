import type { Family } from '../net/address.ts';
import { type Cidr, formatCidr } from '../net/cidr.ts';

/** Prefixes that are never accepted, from any peer. */
const NOWHERE: Readonly<Record<Family, string>> = {
  4: '127.0.0.0/8+, 169.254.0.0/16+, 224.0.0.0/4+',
  6: '::1/128, fe80::/10+, ff00::/8+',
};

/**
 * Renders the import and export filters of a family. No filter names the node's own routes: BIRD prefers static routes,
 * so that routes of peers to the same prefixes reach neither the kernel nor other peers. A new block therefore changes no
 * filter, which would make every peer send all routes again. From nodes no route is accepted that leads over a refused range.
 */
export function renderFilters(family: Family, pools: readonly Cidr[], refused: readonly Cidr[]): string[] {
  const f = String(family);
  const ranges = pools.map((cidr) => `${formatCidr(cidr)}+`).join(', ');
  const inPools = ranges === '' ? 'false' : `net ~ [ ${ranges} ]`;
  const over = refused.flatMap((cidr) => [`${formatCidr(cidr)}-`, `${formatCidr(cidr)}+`]).join(', ');
  const notOver = over === '' ? '' : `if net ~ [ ${over} ] then reject; `;
  return [
    `function in_pools${f}() { return ${inPools}; }`,
    `filter from_node${f} { ${notOver}if in_pools${f}() then accept; reject; }`,
    `filter from_outside${f} { if net ~ [ ${NOWHERE[family]} ] then reject; accept; }`,
    `filter own${f} { if source = RTS_STATIC then accept; reject; }`,
    `filter own_and_learned${f} { if source = RTS_STATIC || source = RTS_BGP && in_pools${f}() then accept; reject; }`,
    `filter of_host${f} { if in_pools${f}() then reject; accept; }`,
    `filter to_kernel${f} { if source = RTS_BGP then accept; reject; }`,
  ];
}
