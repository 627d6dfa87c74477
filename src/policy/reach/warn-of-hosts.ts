import { isDeepStrictEqual } from 'node:util';
import type { PolicyView } from '../policy-view.ts';
import type { PolicyDirection, PolicyEndpoint, PolicyTier } from '../resolved-policy.ts';
import { count } from './group-peers.ts';

const SHOWN_HOSTS = 3;

/** Returns a warning when other policies or profiles would apply to host endpoints, whose traffic is not compared. */
export function warnOfHosts(before: PolicyView, after: PolicyView): readonly string[] {
  const changed = [...before.hostEndpoints.values()].filter(
    (host) => !isDeepStrictEqual(appliedTo(before, host), appliedTo(after, host)),
  );
  if (changed.length === 0) return [];
  const shown = changed.slice(0, SHOWN_HOSTS).map(({ shown: name, node }) => `${name} of node ${node}`);
  const named = changed.length <= SHOWN_HOSTS ? '' : `${count(changed.length, 'host endpoint')}, such as `;
  return [`changes what applies to ${named}${shown.join(', ')}: this command compares pods only, so read its rules`];
}

function appliedTo(view: PolicyView, host: PolicyEndpoint): unknown {
  const ofTier = (tier: PolicyTier, direction: PolicyDirection): readonly unknown[] => {
    const policies = view.policiesOf(host, tier, direction);
    return policies.length === 0 ? [] : [tier, direction, policies];
  };
  return [
    view.tiers.flatMap((tier) => [...ofTier(tier, 'ingress'), ...ofTier(tier, 'egress')]),
    host.profiles.map((name) => view.profile(name)),
  ];
}
