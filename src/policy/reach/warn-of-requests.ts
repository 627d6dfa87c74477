import type { PolicyView } from '../policy-view.ts';
import type { ResolvedPolicy } from '../resolved-policy.ts';

/** Returns a sentence for each policy that asks for other requests after a change: connections are compared, not what they carry. */
export function warnOfRequests({
  before,
  after,
}: {
  readonly before: PolicyView;
  readonly after: PolicyView;
}): readonly string[] {
  const earlier = requestsOf(before);
  return [...requestsOf(after)]
    .filter(([id, requests]) => (earlier.get(id) ?? requests) !== requests)
    .map(
      ([id]) =>
        `which requests ${id} allows changes, and this plan compares connections alone: read its rules with http`,
    );
}

/** What the policies with rules about requests ask for. */
function requestsOf({ tiers }: PolicyView): ReadonlyMap<string, string> {
  const asked = ({ rules: { ingress = [] } }: ResolvedPolicy): readonly unknown[] =>
    ingress.flatMap(({ http }) => (http === undefined ? [] : [http]));
  return new Map(
    tiers
      .flatMap(({ policies }) => policies)
      .filter((policy) => asked(policy).length > 0)
      .map((policy) => [policy.id, JSON.stringify(asked(policy))]),
  );
}
