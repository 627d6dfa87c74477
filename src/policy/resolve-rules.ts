import { getOrInsert } from '../base/get-or-insert.ts';
import { WRITTEN_RULE } from '../model/policy-names.ts';
import { type Direction, httpFault } from '../model/check-rules.ts';
import { EARLY_HTTP } from '../model/policy.ts';
import type { Entity, Rule } from '../model/policy-rule.ts';
import { protocolNumber } from '../model/protocol.ts';
import type { Selector } from '../model/selector-parser.ts';
import { tryParseAddress } from '../net/address.ts';
import { type Cidr, hostCidr, tryReadCidr } from '../net/cidr.ts';
import { RuleLimit, withoutLists } from './limit-rule.ts';
import type {
  HttpMatch,
  IcmpMatch,
  PathMatch,
  PeerMatch,
  PeerSelector,
  PolicyRule,
  PolicyStage,
  PortMatch,
} from './resolved-policy.ts';
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

export interface ResolvedRules {
  readonly rules: readonly PolicyRule[];
  /** What they take: rules, and ports, networks and long selectors in them. */
  readonly entries: number;
  /** A sentence for each rule with a part that cannot be read, and where it is. */
  readonly problems: readonly string[];
}

interface RulesScope {
  readonly direction: Direction;
  readonly stage: PolicyStage;
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
  { areNumbered, ...scope }: RulesScope,
): ResolvedRules {
  const problems: string[] = [];
  const limit = new RuleLimit();
  const portsRead: RuleContext['portsRead'] = new Map();
  const rules = (written ?? []).flatMap((rule, position): PolicyRule[] => {
    const faults: string[] = [];
    const index = (areNumbered ? numberOf(rule) : undefined) ?? position;
    const resolved = resolveRule(rule, { ...scope, index, faults, portsRead });
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

interface RuleContext extends Omit<RulesScope, 'areNumbered'> {
  readonly index: number;
  readonly faults: string[];
  /** Rules that stand for one written rule share their ports. */
  readonly portsRead: Map<NonNullable<Entity['ports']>, PortMatch>;
}

function resolveRule(rule: Rule, context: RuleContext): PolicyRule {
  const { notProtocol, icmp, notICMP, ipVersion } = rule;
  const http = resolveHttp(rule, context);
  // Requests need TCP.
  const protocol = rule.protocol ?? (http === undefined ? undefined : 'TCP');
  return {
    action: rule.action,
    ...(ipVersion === undefined ? {} : { family: ipVersion }),
    ...(protocol === undefined ? {} : { protocol: protocolNumber(protocol) }),
    ...(notProtocol === undefined ? {} : { notProtocol: protocolNumber(notProtocol) }),
    ...(icmp === undefined ? {} : { icmp: icmpOf(icmp) }),
    ...(notICMP === undefined ? {} : { notIcmp: icmpOf(notICMP) }),
    ...(http === undefined ? {} : { http }),
    source: closing(rule.action, resolvePeer(rule.source ?? {}, 'source', context)),
    destination: closing(rule.action, resolvePeer(rule.destination ?? {}, 'destination', context)),
    index: context.index,
  };
}

const HTTP_KEYS = ['methods', 'paths', 'exact', 'prefix'];

function resolveHttp(rule: Rule, { direction, stage, faults }: RuleContext): HttpMatch | undefined {
  const { methods, paths } = rule.http ?? {};
  const fault = httpFault(rule, direction) ?? (stage === 'normal' ? undefined : EARLY_HTTP);
  if (rule.http === undefined) return undefined;
  const odd = [rule.http, ...(paths ?? [])]
    .flatMap((each) => Object.keys(each))
    .find((key) => !HTTP_KEYS.includes(key));
  // A condition of a later release: without it the rule would match more.
  const problem = fault ?? (odd === undefined ? undefined : `${JSON.stringify(odd)} is not known`);
  if (problem !== undefined) {
    faults.push(`http: ${problem}`);
    return undefined;
  }
  return {
    ...(methods === undefined ? {} : { methods }),
    ...(paths === undefined ? {} : { paths: paths.map(pathOf) }),
  };
}

type WrittenPath = NonNullable<NonNullable<Rule['http']>['paths']>[number];

function pathOf({ exact, prefix }: WrittenPath): PathMatch {
  if (exact !== undefined) return { exact };
  if (prefix !== undefined) return { prefix };
  throw new Error('a path is exact or a prefix');
}

/**
 * An address that two pods claim leaves no rule that closes: a Deny finds it under both, and an exception from what is allowed
 * holds for both. A certificate that contradicts the address takes what is allowed, and evades nothing else.
 */
function closing(action: Rule['action'], { selector, notSelector, accounts, ...match }: PeerMatch): PeerMatch {
  const isDenial = action === 'Deny';
  return {
    ...match,
    ...(accounts === undefined || action !== 'Allow' ? {} : { accounts }),
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
    accounts: side === 'source' ? attempt('serviceAccounts', () => accountsOf(entity, namespace)) : undefined,
    ports: ports && getOrInsert(portsRead, ports, () => portsOf(ports)),
    notPorts: notPorts && getOrInsert(portsRead, notPorts, () => portsOf(notPorts)),
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
  return peerSelectorOf(
    allOf([...ofPlace(entity, namespace), ...(selector === undefined ? [] : [readSelector(selector)])]),
  );
}

/** Returns what selects accounts as the rule selects their pods; undefined when it names none. */
function accountsOf(entity: Entity, namespace: string | undefined): PeerSelector | undefined {
  return entity.serviceAccounts === undefined ? undefined : peerSelectorOf(allOf(ofPlace(entity, namespace)));
}

/** Returns selectors of what pods have from their namespace and account. */
function ofPlace({ namespaceSelector, serviceAccounts }: Entity, namespace: string | undefined): readonly Selector[] {
  const spaces = namespaceSelector === undefined ? [] : [ofNamespaces(readSelector(namespaceSelector))];
  const { names, selector: accounts } = serviceAccounts ?? {};
  return [
    ...(namespaceSelector === undefined && namespace !== undefined ? [inNamespace(namespace)] : spaces),
    ...(names === undefined ? [] : [withServiceAccounts(names)]),
    ...(accounts === undefined ? [] : [ofServiceAccounts(readSelector(accounts))]),
  ];
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
