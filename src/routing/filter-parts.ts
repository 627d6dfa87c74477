import { HOST_LINK_PREFIX } from '../dataplane/kernel.ts';
import type { FilterAction, FilterMatch, TableRule } from '../dataplane/policy-filter.ts';
import type { Family } from '../net/address.ts';

export const ACCEPT: FilterAction = { kind: 'accept' };
export const DROP: FilterAction = { kind: 'drop' };

/** The packet comes from the link of a pod. */
export const COMES_FROM_POD: FilterMatch & { readonly kind: 'interface' } = {
  kind: 'interface',
  direction: 'in',
  name: `${HOST_LINK_PREFIX}*`,
};

/** The packet does not come from the link of a pod. */
export const COMES_FROM_OUTSIDE: FilterMatch = { ...COMES_FROM_POD, isNegated: true };

/** The destination is in no pool (set `pools`), and is neither an address of the node nor a broadcast or multicast address. */
export function goesOutside(family: Family): readonly FilterMatch[] {
  return [
    { kind: 'member', side: 'destination', family, set: setName('pools', family), isNegated: true },
    ...(['local', 'broadcast', 'multicast'] as const).map((type): FilterMatch => ({
      kind: 'address type',
      side: 'destination',
      type,
      isNegated: true,
    })),
  ];
}

export function rule(id: string, ...parts: TableRule['parts']): TableRule {
  return { id, parts };
}

/** Returns the name of a set or map, which contains addresses of one family only. */
export function setName(name: string, family: Family): string {
  return `${name}-v${String(family)}`;
}
