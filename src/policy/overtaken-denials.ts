import type { Selector } from '../model/selector-parser.ts';
import { isContradiction } from './advise-policy.ts';
import { compareOrder, type OrderedPolicy } from './resolve-policy.ts';
import type { PolicyDirection, ResolvedPolicy } from './resolved-policy.ts';

const DIRECTIONS: readonly PolicyDirection[] = ['ingress', 'egress'];

/** A policy of a namespace that decides before a global policy with a `Deny` rule. */
export interface OvertakenDenial {
  readonly policy: string;
  readonly denial: string;
  readonly direction: PolicyDirection;
}

/**
 * Returns the policies of namespaces that allow or pass connections before a global policy denies them, as far as selectors do not
 * exclude each other.
 */
export function overtakenDenials(policies: readonly OrderedPolicy[]): readonly OvertakenDenial[] {
  const ofNamespaces = policies.filter(({ policy }) => mayChooseOrder(policy));
  const global = policies.filter(({ namespace }) => namespace === undefined);
  return DIRECTIONS.flatMap((direction) =>
    ofNamespaces.flatMap((own) =>
      global
        .filter((other) => compareOrder(own, other) < 0 && overtakes(own.policy, other.policy, direction))
        .filter((other) => !isContradiction(both(own.policy.appliesTo, other.policy.appliesTo)))
        .map((other) => ({ policy: own.policy.id, denial: other.policy.id, direction })),
    ),
  );
}

/** Reports whether users of a namespace choose the order of the policy; one of Kubernetes has none. */
export function mayChooseOrder({ id }: ResolvedPolicy): boolean {
  return id.startsWith('NetworkPolicy ');
}

/** Reports whether the first policy can allow or pass what the second, which comes later, denies. */
export function overtakes(own: ResolvedPolicy, later: ResolvedPolicy, direction: PolicyDirection): boolean {
  if (own.isStaged || later.isStaged || later.stage !== 'normal') return false;
  const opens = own.rules[direction]?.some(({ action }) => action === 'Allow' || action === 'Pass') ?? false;
  return opens && (later.rules[direction]?.some(({ action }) => action === 'Deny') ?? false);
}

/** Describes it without the policy of the namespace, which the reader looks at. */
export function describeOvertaken({ denial, direction }: Pick<OvertakenDenial, 'denial' | 'direction'>): string {
  return `comes before ${denial}, whose Deny rules do not apply to what it allows (${direction})`;
}

function both(a: Selector, b: Selector): Selector {
  const parts = (selector: Selector): readonly Selector[] =>
    selector.kind === 'and' ? selector.of.flatMap(parts) : [selector];
  return { kind: 'and', of: [...parts(a), ...parts(b)] };
}
