import type { GlobalNetworkPolicy, NetworkPolicy } from '../../model/policy.ts';
import type { Profile } from '../../model/profile.ts';

/**
 * Returns a text such as `NetworkPolicy shop/web (/items)` for each policy with prefixes of paths that do not end at a segment. Until
 * v3.27.0 such a prefix was compared as text, and `/items` had `/items-of-others` below it too.
 */
export function openPrefixes(policies: readonly (NetworkPolicy | GlobalNetworkPolicy | Profile)[]): readonly string[] {
  return policies.flatMap((policy) => {
    const { kind, metadata, spec } = policy;
    const paths = spec.ingress?.flatMap(({ http }) => http?.paths ?? []) ?? [];
    const open = new Set(paths.flatMap(({ prefix }) => (prefix === undefined || prefix.endsWith('/') ? [] : [prefix])));
    const namespace = 'namespace' in metadata ? `${metadata.namespace}/` : '';
    return open.size === 0 ? [] : [`${kind} ${namespace}${metadata.name} (${[...open].join(', ')})`];
  });
}
