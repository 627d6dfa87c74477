import { WRITTEN_RULE } from '../model/policy-names.ts';
import type { Entity, Rule } from '../model/policy-rule.ts';
import { protocolNumber } from '../model/protocol.ts';
import { tryParseAddress } from '../net/address.ts';
import { type Cidr, hostCidr, tryReadCidr } from '../net/cidr.ts';
import { RuleLimit, withoutLists } from './limit-rule.ts';
import type { IcmpMatch, PeerMatch, PeerSelector, PolicyRule, PortMatch } from './resolved-policy.ts';
import {
  allOf,
  entriesOfPeer,
  inNamespace,
  ofNamespaces,
  ofServiceAccounts,
  peerSelectorOf,
  readSelector,
  withContested,
  withServiceAccounts,
} from './resolve-selector.ts';

const NEEDS_SIDECAR = 'http needs the application-layer sidecar, which this release does not have';

export interface ResolvedRules {
  readonly rules: readonly PolicyRule[];
  /** What they take: rules, and ports, networks and long selectors in them. */
  readonly entries: number;
  /** A sentence for each rule with a part that cannot be read, and where it is. */
  readonly problems: readonly string[];
}

interface RulesScope {
  /** Undefined for a global policy. */
  readonly namespace: string | undefined;
  /** Netplug has numbered the rules. What users note on others numbers nothing. */
  readonly areNumbered: boolean;
}

/**
 * Resolves the rules of one direction of a policy. A rule with a part that cannot be
 * read, or that is too large, allows and passes nothing; as a `Deny`, it denies whatever its other parts match.
 */
export function resolveRules(
  written: readonly Rule[] | undefined,
  { namespace, areNumbered }: RulesScope,
): ResolvedRules {
  const problems: string[] = [];
  const limit = new RuleLimit();
  const portsRead: RuleContext['portsRead'] = new Map();
  const rules = (written ?? []).flatMap((rule, position): PolicyRule[] => {
    const faults: string[] = [];
    const index = (areNumbered ? numberOf(rule) : undefined) ?? position;
    const resolved = resolveRule(rule, { namespace, index, faults, portsRead });
    for (const fault of faults) problems.push(`[${String(index)}].${fault}`);
    const isDenial = rule.action === 'Deny';
    if (faults.length > 0 && !isDenial) return [];
    const refusal = limit.refusal(resolved);
    if (refusal === undefined) return [resolved];
    const effect = isDenial ? 'denies any port and network' : 'has no effect, or only a part of it';
    problems.push(`[${String(resolved.index)}] ${effect}: ${refusal}`);
    if (!isDenial) return [];
    const shortened = withoutLists(resolved);
    limit.refusal(shortened);
    return [shortened];
  });
  const selectors = rules.flatMap(({ source, destination }) =>
    [source, destination].flatMap(({ selector, notSelector }) => [selector ?? [], notSelector ?? []].flat()),
  );
  const entries = selectors.reduce((sum, each) => sum + entriesOfPeer(each), limit.entries);
  // Several rules may come from one written rule.
  return { rules, entries, problems: [...new Set(problems)] };
}

interface RuleContext {
  readonly namespace: string | undefined;
  readonly index: number;
  readonly faults: string[];
  /** Rules that stand for one written rule share their ports. */
  readonly portsRead: Map<NonNullable<Entity['ports']>, PortMatch>;
}

function resolveRule(rule: Rule, context: RuleContext): PolicyRule {
  const { protocol, notProtocol, icmp, notICMP, ipVersion } = rule;
  if (rule.http !== undefined) context.faults.push(`http: ${NEEDS_SIDECAR}`);
  return {
    action: rule.action,
    ...(ipVersion === undefined ? {} : { family: ipVersion }),
    ...(protocol === undefined ? {} : { protocol: protocolNumber(protocol) }),
    ...(notProtocol === undefined ? {} : { notProtocol: protocolNumber(notProtocol) }),
    ...(icmp === undefined ? {} : { icmp: icmpOf(icmp) }),
    ...(notICMP === undefined ? {} : { notIcmp: icmpOf(notICMP) }),
    source: closing(rule.action, resolvePeer(rule.source ?? {}, 'source', context)),
    destination: closing(rule.action, resolvePeer(rule.destination ?? {}, 'destination', context)),
    index: context.index,
  };
}

/**
 * An address that two pods claim leaves no rule that closes: a Deny finds it under both, and an exception from what is allowed
 * holds for both.
 */
function closing(action: Rule['action'], { selector, notSelector, ...match }: PeerMatch): PeerMatch {
  const isDenial = action === 'Deny';
  return {
    ...match,
    ...(selector === undefined ? {} : { selector: isDenial ? withContested(selector) : selector }),
    ...(notSelector === undefined ? {} : { notSelector: isDenial ? notSelector : withContested(notSelector) }),
  };
}

function resolvePeer(entity: Entity, side: string, { namespace, faults, portsRead }: RuleContext): PeerMatch {
  const attempt = <T>(field: string, read: () => T): T | undefined => {
    try {
      return read();
    } catch (cause) {
      if (!(cause instanceof Error)) throw cause;
      faults.push(`${side}.${field}: ${cause.message}`);
      return undefined;
    }
  };
  const { nets, notNets, notSelector, ports, notPorts, services } = entity;
  const match = {
    nets: nets === undefined ? undefined : attempt('nets', () => nets.map(readNet)),
    notNets: notNets === undefined ? undefined : attempt('notNets', () => notNets.map(readNet)),
    selector: attempt('selector', () => selectorOf(entity, namespace)),
    notSelector:
      notSelector === undefined ? undefined : attempt('notSelector', () => peerSelectorOf(readSelector(notSelector))),
    ports: ports === undefined ? undefined : sharedPorts(ports, portsRead),
    notPorts: notPorts === undefined ? undefined : sharedPorts(notPorts, portsRead),
    service:
      services === undefined
        ? undefined
        : { name: services.name, namespace: services.namespace ?? namespace ?? 'default' },
  };
  // Fields without a value are left out, as the type says.
  return Object.fromEntries(Object.entries(match).filter(([, value]) => value !== undefined)) as PeerMatch;
}

/** In a namespace, labels without a namespace selector mean the policy's own; other matches say nothing about namespaces. */
function selectorOf(entity: Entity, namespace: string | undefined): PeerSelector | undefined {
  const { selector, notSelector, namespaceSelector, serviceAccounts } = entity;
  const isByLabels = selector !== undefined || notSelector !== undefined || serviceAccounts !== undefined;
  const isLimited = namespaceSelector !== undefined || (isByLabels && namespace !== undefined);
  if (!isLimited && selector === undefined && serviceAccounts === undefined) return undefined;
  const spaces = namespaceSelector === undefined ? [] : [ofNamespaces(readSelector(namespaceSelector))];
  const { names, selector: accounts } = serviceAccounts ?? {};
  return peerSelectorOf(
    allOf([
      ...(namespaceSelector === undefined && namespace !== undefined ? [inNamespace(namespace)] : spaces),
      ...(names === undefined ? [] : [withServiceAccounts(names)]),
      ...(accounts === undefined ? [] : [ofServiceAccounts(readSelector(accounts))]),
      ...(selector === undefined ? [] : [readSelector(selector)]),
    ]),
  );
}

function sharedPorts(ports: NonNullable<Entity['ports']>, read: RuleContext['portsRead']): PortMatch {
  const match = read.get(ports) ?? portsOf(ports);
  read.set(ports, match);
  return match;
}

function portsOf(ports: readonly (number | string)[]): PortMatch {
  const ranges: PortMatch['ranges'][number][] = [];
  const names: string[] = [];
  for (const port of ports) {
    const [, first, last] = /^(\d+):(\d+)$/.exec(String(port)) ?? [];
    if (first !== undefined && last !== undefined) ranges.push({ first: Number(first), last: Number(last) });
    else if (typeof port === 'number') ranges.push({ first: port, last: port });
    else names.push(port);
  }
  return { ranges, names };
}

function readNet(text: string): Cidr {
  const address = tryParseAddress(text);
  const net = address === undefined ? tryReadCidr(text)?.cidr : hostCidr(address);
  if (net === undefined) throw new Error(`"${text}" is no CIDR`);
  return net;
}

function icmpOf({ type, code }: { readonly type: number; readonly code?: number | undefined }): IcmpMatch {
  return { type, ...(code === undefined ? {} : { code }) };
}

/** Several rules may stand for one rule of a Kubernetes policy, and rules that cannot be read are left out. */
function numberOf({ metadata }: Rule): number | undefined {
  const text = metadata?.annotations?.[WRITTEN_RULE];
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}
