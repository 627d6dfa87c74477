import { counted } from '../../base/counted.ts';
import { isDeepStrictEqual } from 'node:util';
import { type PacketPath, policiesOn } from '../packet-path.ts';
import type { PolicyView } from '../policy-view.ts';

const SHOWN_HOSTS = 3;
/** Paths that a comparison of reach does not see at a host endpoint of an address. */
const FORWARDING: readonly PacketPath[] = ['untracked', 'preDNAT', 'forwarded'];
const ALL: readonly PacketPath[] = [...FORWARDING, 'local'];

/**
 * Returns a warning when other policies would apply to what host endpoints forward, which is not compared. Of those that are not
 * among the compared, by key, nothing is.
 */
export function warnOfHosts(
  views: { readonly before: PolicyView; readonly after: PolicyView },
  compared: ReadonlySet<string>,
): readonly string[] {
  const { before, after } = views;
  const hosts = new Map([...before.hostEndpoints, ...after.hostEndpoints]);
  const changed = [...hosts].filter(([key]) => {
    const paths = compared.has(key) ? FORWARDING : ALL;
    return !isDeepStrictEqual(appliedTo(before, key, paths), appliedTo(after, key, paths));
  });
  if (changed.length === 0) return [];
  const shown = changed.slice(0, SHOWN_HOSTS).map(([, { shown: name, node }]) => `${name} of node ${node}`);
  const named = changed.length <= SHOWN_HOSTS ? '' : `${counted(changed.length, 'host endpoint')}, such as `;
  const what = changed.every(([key]) => compared.has(key)) ? 'what their nodes forward is' : 'what passes there is';
  return [`changes what applies to ${named}${shown.join(', ')}: ${what} not compared, so read the rules`];
}

function appliedTo(view: PolicyView, key: string, paths: readonly PacketPath[]): unknown {
  const endpoint = view.hostEndpoints.get(key);
  if (endpoint === undefined) return paths.includes('local') ? undefined : [[], undefined];
  const policies = view.tiers.flatMap((tier) =>
    (['ingress', 'egress'] as const).flatMap((direction) =>
      paths.flatMap((path) => {
        const applied = policiesOn(view, { tier, endpoint, direction, path });
        return applied.length === 0 ? [] : [{ tier: tier.name, direction, path, applied }];
      }),
    ),
  );
  return [policies, paths.includes('local') ? endpoint.profiles.map((name) => view.profile(name)) : undefined];
}
