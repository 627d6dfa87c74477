import type { PolicyView } from './policy-view.ts';
import type { PolicyDirection, PolicyEndpoint, PolicyTier, ResolvedPolicy } from './resolved-policy.ts';

/**
 * Path of a packet, which selects the policies that an endpoint applies. `forwarded`, `preDNAT` and `untracked` are for
 * packets at a host endpoint that pass through the node, arrive before destination translation, or are exempt from
 * connection tracking.
 */
export type PacketPath = 'local' | 'forwarded' | 'preDNAT' | 'untracked';

/** Returns the policies of the tier that packets on the path meet, in order, staged ones included. */
export function policiesOn(
  view: PolicyView,
  {
    tier,
    endpoint,
    direction,
    path,
  }: { tier: PolicyTier; endpoint: PolicyEndpoint; direction: PolicyDirection; path: PacketPath },
): readonly ResolvedPolicy[] {
  return view.policiesOf(endpoint, tier, direction).filter(({ stage, applyOnForward }) => {
    if (path === 'local') return stage === 'normal';
    return path === 'forwarded' ? stage === 'normal' && applyOnForward : stage === path;
  });
}

/** Packets that are judged before translation or tracking go on when no rule matches. */
export function hasDefault(path: PacketPath): boolean {
  return path === 'local' || path === 'forwarded';
}
