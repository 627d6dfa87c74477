import type {
  FilterAction,
  FilterChain,
  FilterHook,
  FilterMatch,
  FilterSet,
  PacketSide,
  TableRule,
} from '../../dataplane/policy-filter.ts';
import { protocolNumber } from '../../model/protocol.ts';
import type { ServicePort } from '../../model/service-endpoints.ts';
import { FAMILIES, type Family } from '../../net/address.ts';
import { type HostEndpointsInForce, hostEndpointsInForce, hostEndpointsOf, LOOPBACK } from '../host-interfaces.ts';
import { NO_OPEN_PORTS, type OpenMatch, openMatches, type OpenPorts, withTunnels } from '../open-ports.ts';
import { hasDefault, type PacketPath, policiesOn } from '../packet-path.ts';
import type { PodLinkNames } from '../pod-link-names.ts';
import type { PolicyView } from '../policy-view.ts';
import type { PolicyDirection, PolicyEndpoint } from '../resolved-policy.ts';
import { endedFlowRules, INVALID, KNOWN_FLOW, NEIGHBOURS } from './base-chains.ts';
import type { HostLinks, RulesetSettings } from './policy-ruleset.ts';
import { acceptChain, type RenderedChain } from './render-rules.ts';
import { serviceSet } from './rule-sets.ts';

/** Chains, sets and maps of the host endpoints of a node; empty without any. */
export interface HostRuleset {
  readonly chains: ReadonlyMap<string, FilterChain>;
  readonly sets: ReadonlyMap<string, FilterSet>;
  /** Chains that the chains go to. */
  readonly next: readonly RenderedChain[];
}

type RenderPolicies = (
  view: PolicyView,
  end: { readonly endpoint: PolicyEndpoint; readonly direction: PolicyDirection; readonly path: PacketPath },
) => RenderedChain;

interface HostHook {
  readonly path: PacketPath;
  readonly direction: PolicyDirection;
  readonly hook: FilterHook['hook'];
  readonly priority: number;
}

/** Connection tracking is at -200, translation of destinations at -100, and the chains of pods are at 0 and 1. */
const HOOKS: readonly HostHook[] = [
  { path: 'untracked', direction: 'ingress', hook: 'prerouting', priority: -300 },
  { path: 'preDNAT', direction: 'ingress', hook: 'prerouting', priority: -150 },
  { path: 'local', direction: 'ingress', hook: 'input', priority: 2 },
  { path: 'forwarded', direction: 'ingress', hook: 'forward', priority: 2 },
  { path: 'forwarded', direction: 'egress', hook: 'forward', priority: 3 },
  { path: 'untracked', direction: 'egress', hook: 'output', priority: -300 },
  { path: 'local', direction: 'egress', hook: 'output', priority: 0 },
];
const DISPATCH_HOST = 'dispatch-host';
/**
 * When the kernel translates what the node sends to a service, it looks for the route again, and only later hooks see the new
 * interface. Sources are translated at 100.
 */
const AFTER_REROUTE: FilterHook = { type: 'filter', hook: 'postrouting', priority: 90 };
const TRANSLATED: FilterMatch = { kind: 'translated' };
const ACCEPT: FilterAction = { kind: 'accept' };
const UNTRACKED: TableRule = { id: 'untracked', parts: [{ kind: 'state', states: ['untracked'] }, ACCEPT] };
/** Drop what belongs to no connection, or to one that was ended, where connections are decided. */
const NO_CONNECTION: readonly TableRule[] = [
  { id: 'invalid', parts: [INVALID, { kind: 'count' }, { kind: 'drop' }] },
  ...endedFlowRules(),
];

/** Reports whether a table with these rules enforces host endpoints. */
export function enforcesHosts(ruleIds: ReadonlySet<string>): boolean {
  return ruleIds.has(DISPATCH_HOST);
}

/** Returns the sets of the servers of the datastore. Rules name the sets, so other servers need no other rules. */
export function serverSets(servers: readonly ServicePort[]): ReadonlyMap<string, FilterSet> {
  return new Map(FAMILIES.map((family) => [serverSetName(family), serviceSet(family, servers)]));
}

function serverSetName(family: Family): string {
  return `datastore-v${String(family)}`;
}

/** Renders the host endpoints of one node: base chains, one for each hook that has something to decide. */
export class HostChains {
  readonly #settings: RulesetSettings;
  readonly #renderPolicies: RenderPolicies;
  #keys: ReadonlySet<string> = new Set();

  constructor(settings: RulesetSettings, renderPolicies: RenderPolicies) {
    this.#settings = settings;
    this.#renderPolicies = renderPolicies;
  }

  /** Reports whether a change of the endpoint, which is undefined when it is gone, changes what was rendered. */
  isAffectedBy(key: string, endpoint: PolicyEndpoint | undefined): boolean {
    return this.#keys.has(key) || (endpoint?.kind === 'host' && endpoint.node === this.#settings.node);
  }

  /** Renders nothing while the links are not known. */
  render(view: PolicyView, links: HostLinks | undefined): HostRuleset {
    const endpoints = hostEndpointsOf(view, this.#settings.node);
    this.#keys = new Set(endpoints.map(({ key }) => key));
    if (links === undefined) return { chains: new Map(), sets: new Map(), next: [] };
    const { interfaces, tunnels, servers } = links;
    const inForce = hostEndpointsInForce(endpoints, interfaces, this.#settings.podLinks);
    const used = HOOKS.filter((hook) => isUsed(view, inForce, hook));
    const paths = new Set(used.map(({ path }) => path));
    const open = withTunnels(this.#settings.failsafe ?? NO_OPEN_PORTS, tunnels);
    const parts = used.map((hook) => this.#renderHook(view, { hook, inForce, paths, open }));
    return {
      chains: new Map(parts.flatMap(({ chains }) => [...chains])),
      sets: new Map([...parts.flatMap(({ sets }) => [...sets]), ...(used.length === 0 ? [] : serverSets(servers))]),
      next: parts.flatMap(({ next }) => next),
    };
  }

  #renderHook(
    view: PolicyView,
    {
      hook,
      inForce: { byInterface, elsewhere, podLinks },
      paths,
      open,
    }: {
      readonly hook: HostHook;
      readonly inForce: HostEndpointsInForce;
      readonly paths: ReadonlySet<PacketPath>;
      readonly open: OpenPorts;
    },
  ): HostRuleset {
    const { path, direction, priority } = hook;
    const place = `${path.toLowerCase()}-${direction}`;
    const before = `open-${place}`;
    const next: RenderedChain[] = [];
    const chains = new Map<string, FilterChain>();
    const addEntry = (name: string, endpoint: PolicyEndpoint): string => {
      const policies = hasSomething(view, endpoint, hook)
        ? this.#renderPolicies(view, { endpoint, direction, path })
        : acceptChain();
      next.push(policies);
      chains.set(name, {
        rules: [
          ...(passesUntracked(view, endpoint, hook) ? [UNTRACKED] : []),
          { id: 'open', parts: [{ kind: 'jump', chain: before }] },
          ...(isEnforced(view, endpoint, hook) ? NO_CONNECTION : []),
          { id: 'policies', parts: [{ kind: 'goto', chain: policies.name }] },
        ],
      });
      return name;
    };
    const map = `host-${place}-interfaces`;
    const elements = new Map(
      [...byInterface].map(([name, endpoint]) => [name, addEntry(`host-${place}-${name}`, endpoint)]),
    );
    const others = elsewhere && addEntry(`hosts-${place}-others`, elsewhere);
    chains.set(before, { rules: openRules(hook, open) });
    const at: FilterHook = { type: 'filter', hook: hook.hook, priority };
    const rules = baseRules(hook, { map, others, paths, podLinks });
    if (path === 'local' && direction === 'egress') {
      const judge = `judge-${place}`;
      chains.set(judge, { rules });
      chains.set(`host-${place}`, { hook: at, rules: untranslatedRules(judge) });
      chains.set(`host-${place}-translated`, { hook: AFTER_REROUTE, rules: translatedRules(judge) });
    } else chains.set(`host-${place}`, { hook: at, rules });
    return { chains, sets: new Map([[map, { kind: 'interfaces', elements }]]), next };
  }
}

/** Without an endpoint that decides something there, packets need not pass the hook. */
function isUsed(view: PolicyView, { byInterface, elsewhere }: HostEndpointsInForce, hook: HostHook): boolean {
  return [...byInterface.values(), elsewhere].some(
    (endpoint) => endpoint !== undefined && hasSomething(view, endpoint, hook),
  );
}

function hasSomething(view: PolicyView, endpoint: PolicyEndpoint, { path, direction }: HostHook): boolean {
  return (
    path === 'local' || view.tiers.some((tier) => policiesOn(view, { tier, endpoint, direction, path }).length > 0)
  );
}

/** Reports whether connections are decided there; staged policies decide nothing. */
function isEnforced(view: PolicyView, endpoint: PolicyEndpoint, hook: HostHook): boolean {
  return hook.path === 'forwarded' ? hasEnforced(view, endpoint, hook) : hasDefault(hook.path);
}

/**
 * Reports whether an untracked packet meets no further policy there, because one of the endpoint allowed it. What is forwarded
 * was allowed where it arrived, which says nothing of where it leaves.
 */
function passesUntracked(view: PolicyView, endpoint: PolicyEndpoint, { path, direction }: HostHook): boolean {
  const isLeaving = path === 'forwarded' && direction === 'egress';
  return path !== 'untracked' && !isLeaving && hasEnforced(view, endpoint, { path: 'untracked', direction });
}

function hasEnforced(
  view: PolicyView,
  endpoint: PolicyEndpoint,
  { path, direction }: Pick<HostHook, 'path' | 'direction'>,
): boolean {
  return view.tiers.some((tier) =>
    policiesOn(view, { tier, endpoint, direction, path }).some(({ isStaged }) => !isStaged),
  );
}

function baseRules(
  { path, direction }: HostHook,
  {
    map,
    others,
    paths,
    podLinks,
  }: {
    readonly map: string;
    readonly others: string | undefined;
    readonly paths: ReadonlySet<PacketPath>;
    readonly podLinks: PodLinkNames;
  },
): readonly TableRule[] {
  const side = direction === 'ingress' ? 'in' : 'out';
  const at = (name: string): FilterMatch => ({ kind: 'interface', direction: side, name });
  const isEarly = path === 'untracked';
  const isMarkable = direction === 'ingress' && hasDefault(path) && paths.has('preDNAT');
  return [
    ...(isEarly ? [] : [{ id: 'established', parts: [KNOWN_FLOW, ACCEPT] }]),
    // A packet may come out of a tunnel with the mark of the one that carried it.
    ...(path === 'preDNAT' ? [{ id: 'unmark', parts: [{ kind: 'mark', isSet: false }] } as const] : []),
    ...(isMarkable ? [{ id: 'marked', parts: [{ kind: 'marked' }, ACCEPT] } as const] : []),
    { id: DISPATCH_HOST, parts: [{ kind: 'dispatch', direction: side, map }] },
    ...(others === undefined
      ? []
      : ([
          ...podLinks.others.map(
            (name) => ({ id: 'others', parts: [at(name), { kind: 'goto', chain: others }] }) as const,
          ),
          ...podLinks.prefixes.map((prefix) => ({ id: 'pods', parts: [at(`${prefix}*`), ACCEPT] }) as const),
          { id: 'loopback', parts: [at(LOOPBACK), ACCEPT] },
          { id: 'others', parts: [{ kind: 'goto', chain: others }] },
        ] as const)),
  ];
}

function untranslatedRules(judge: string): readonly TableRule[] {
  return [
    { id: 'translated', parts: [TRANSLATED, ACCEPT] },
    { id: 'judge', parts: [{ kind: 'goto', chain: judge }] },
  ];
}

/** Forwarded packets pass the hook too. */
function translatedRules(judge: string): readonly TableRule[] {
  const isSentByNode: FilterMatch = { kind: 'interface', direction: 'in', name: '' };
  return [{ id: 'judge', parts: [isSentByNode, TRANSLATED, { kind: 'goto', chain: judge }] }];
}

/** Accepts what no policy may close. */
function openRules({ path, direction }: HostHook, open: OpenPorts): readonly TableRule[] {
  return [
    ...openMatches(open, direction, path).map((match) => ({
      id: match.kind,
      parts: [...openParts(match, direction), ACCEPT],
    })),
    ...serverSides(path, direction).flatMap((side) => FAMILIES.map((family) => serverRule(side, family))),
    ...(path === 'forwarded' ? [] : [{ id: 'neighbours', parts: [...NEIGHBOURS, ACCEPT] } as const]),
  ];
}

/** Returns the ends of a packet that are servers, as `openMatches` has them. */
function serverSides(path: PacketPath, direction: PolicyDirection): readonly PacketSide[] {
  if (direction === 'egress') return path === 'forwarded' ? [] : ['destination'];
  return path === 'untracked' ? ['source'] : [];
}

function serverRule(side: PacketSide, family: Family): TableRule {
  const isTcp: FilterMatch = { kind: 'protocol', protocols: [protocolNumber('TCP')] };
  return { id: 'datastore', parts: [isTcp, { kind: 'service', side, family, set: serverSetName(family) }, ACCEPT] };
}

function openParts({ protocol, port, net, side }: OpenMatch, direction: PolicyDirection): readonly FilterMatch[] {
  return [
    { kind: 'protocol', protocols: [protocol] },
    ...(port === undefined ? [] : [{ kind: 'ports', side, spans: [{ first: port, last: port }] } as const]),
    ...(net === undefined
      ? []
      : [
          {
            kind: 'nets',
            side: direction === 'ingress' ? 'source' : 'destination',
            family: net.base.family,
            nets: [net],
          } as const,
        ]),
  ];
}
