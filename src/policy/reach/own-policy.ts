import { NAMESPACE_LABEL } from '../../model/policy-names.ts';
import { API_VERSION } from '../../model/resource.ts';
import type { AllowedPeer, AllowedPort, RecommendedPolicy } from './recommend-policies.ts';

export type OwnKind = 'NetworkPolicy' | 'GlobalNetworkPolicy';

interface OwnEntity {
  readonly selector?: string;
  readonly namespaceSelector?: string;
  readonly nets?: readonly string[];
  readonly ports?: readonly (number | string)[];
}

interface OwnRule {
  readonly action: 'Allow';
  readonly protocol: string | number;
  readonly icmp?: { readonly type: number };
  readonly source?: OwnEntity;
  readonly destination?: OwnEntity;
}

/** A policy of netplug. */
export interface OwnPolicy {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: OwnKind;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly spec: {
    readonly selector: string;
    readonly types: readonly ['Ingress', 'Egress'];
    readonly ingress: readonly OwnRule[];
    readonly egress: readonly OwnRule[];
  };
}

/** Returns the policy of the kind that allows the same. */
export function ownPolicy({ metadata, spec }: RecommendedPolicy, kind: OwnKind): OwnPolicy {
  const { name, namespace } = metadata;
  const isGlobal = kind === 'GlobalNetworkPolicy';
  const selector = termsOf(spec.podSelector);
  return {
    apiVersion: API_VERSION,
    kind,
    metadata: isGlobal ? { name: `${namespace}-${name}` } : { name, namespace },
    spec: {
      selector: isGlobal ? inNamespace(namespace, selector) : selector.join(' && '),
      types: ['Ingress', 'Egress'],
      ingress: spec.ingress.flatMap(({ from, ports }) =>
        rulesOf(from, ports, (peer, served) => ({
          source: entityOf(peer, { namespace, isGlobal }),
          ...destinationOf(served),
        })),
      ),
      egress: spec.egress.flatMap(({ to, ports }) =>
        rulesOf(to, ports, (peer, served) => destinationOf({ ...entityOf(peer, { namespace, isGlobal }), ...served })),
      ),
    },
  };
}

function destinationOf(destination: OwnEntity): Pick<OwnRule, 'destination'> {
  return Object.keys(destination).length === 0 ? {} : { destination };
}

/** A rule names one protocol and one selector. */
function rulesOf(
  peers: readonly AllowedPeer[] | undefined,
  ports: readonly AllowedPort[],
  ends: (peer: AllowedPeer | undefined, served: OwnEntity) => Pick<OwnRule, 'source' | 'destination'>,
): readonly OwnRule[] {
  const groups = Map.groupBy(ports, ({ protocol, icmpType }) => JSON.stringify([protocol, icmpType]));
  return [...groups.values()].flatMap((group) => {
    const [{ protocol, icmpType } = { protocol: 0, icmpType: undefined }] = group;
    const numbers = group.flatMap(({ port }) => port ?? []);
    const served = numbers.length === 0 ? {} : { ports: numbers };
    return (peers ?? [undefined]).map((peer): OwnRule => ({
      action: 'Allow',
      protocol,
      ...(icmpType === undefined ? {} : { icmp: { type: icmpType } }),
      ...ends(peer, served),
    }));
  });
}

function entityOf(
  peer: AllowedPeer | undefined,
  { namespace, isGlobal }: { readonly namespace: string; readonly isGlobal: boolean },
): OwnEntity {
  if (peer === undefined) return {};
  const { ipBlock, podSelector, namespaceSelector } = peer;
  if (ipBlock !== undefined) return { nets: [ipBlock.cidr] };
  const selector = termsOf(podSelector);
  const [of = namespace] = Object.values(namespaceSelector?.matchLabels ?? {});
  if (isGlobal) return { selector: inNamespace(of, selector) };
  const text = selector.length === 0 ? 'all()' : selector.join(' && ');
  return namespaceSelector === undefined
    ? { selector: text }
    : { selector: text, namespaceSelector: termsOf(namespaceSelector).join(' && ') };
}

function inNamespace(namespace: string, terms: readonly string[]): string {
  return [`${NAMESPACE_LABEL} == '${namespace}'`, ...terms].join(' && ');
}

function termsOf(selector: AllowedPeer['podSelector']): readonly string[] {
  return Object.entries(selector?.matchLabels ?? {})
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([label, value]) => `${label} == ${value.includes("'") ? `"${value}"` : `'${value}'`}`);
}
