import { counted } from '../../../base/counted.ts';
import { getOrInsert } from '../../../base/get-or-insert.ts';
import { HOST_LINK_PREFIX } from '../../../dataplane/kernel.ts';
import { type Address, formatAddress } from '../../../net/address.ts';
import { AddressIndex } from '../../../net/address-index.ts';
import { concerns, type HostFilter, verdictOn } from './host-filter.ts';
import { entriesIn } from './meet-traffic.ts';
import type { UnreadTable } from './read-legacy-filters.ts';
import { LINKS, type NeededTraffic, type NodeTraffic, type TrafficKind, trafficOf } from './traffic.ts';

/** Sessions of BGP that this node opens itself come up all the same, and pods may be shut off from other addresses on purpose. */
export const FIREWALL_SEVERITIES = {
  'kernel/forward-dropped': 'error',
  'kernel/outside-dropped': 'warning',
  'kernel/tunnel-dropped': 'error',
  'kernel/bgp-dropped': 'warning',
} as const;

/** Packets that a chain of the host firewall drops. */
export interface FirewallFault {
  readonly code: keyof typeof FIREWALL_SEVERITIES;
  readonly found: string;
  readonly remedy: string;
  /** A command that accepts the packets; undefined where a name of the chain does not fit in one as it is. */
  readonly command?: string;
}

export interface FirewallJudgement {
  readonly faults: readonly FirewallFault[];
  /** What is not known, a sentence each. */
  readonly unread: readonly string[];
}

const SHOWN = 3;
/** Classes of traffic for which each filter is judged: a firewall may have rules of their own for thousands of nodes. */
const MOST_CLASSES = 64;

/** Returns what the host firewall drops of what the node needs, and of which chains that is not known. Pure. */
export function judgeFirewall(
  { filters, unread }: { readonly filters: readonly HostFilter[]; readonly unread: readonly UnreadTable[] },
  node: NodeTraffic,
): FirewallJudgement {
  const traffic = trafficOf(node);
  const judged = filters.map((filter) => judgeFilter(filter, traffic));
  return {
    faults: judged.flatMap(({ faults }) => faults),
    unread: [
      ...judged.flatMap((each) => each.unread),
      ...unread
        .filter(({ family }) => traffic.some((each) => (each.family === 4) === (family === 'ip')))
        .map(({ family, table, reason }) => `legacy table "${family} ${table}" is not read: ${reason}`),
    ],
  };
}

function judgeFilter(filter: HostFilter, all: readonly NeededTraffic[]): FirewallJudgement {
  const verdicts = classesOf(filter, all).flatMap((alike) => {
    const [first] = alike;
    return first === undefined ? [] : [{ kind: first.kind, alike, verdict: verdictOn(filter, first) }];
  });
  // What accepts packets of pods accepts them from outside as well.
  const isCutOff = verdicts.some(({ kind, verdict }) => kind === 'pods' && verdict === 'drop');
  const judged = verdicts.filter(({ kind }) => kind !== 'outside' || !isCutOff);
  const trafficWith = (isDropped: boolean): ReadonlyMap<TrafficKind, readonly NeededTraffic[]> =>
    Map.groupBy(
      judged.filter(({ verdict }) => (verdict === 'drop') === isDropped).flatMap(({ alike }) => alike),
      ({ kind }) => kind,
    );
  const [dropped, passing] = [trafficWith(true), trafficWith(false)];
  const doubt = judged.find(({ kind, verdict }) => verdict.startsWith('?') && !dropped.has(kind));
  return {
    faults: [...dropped].map(([kind, traffic]) => {
      // Nodes are named where the firewall tells them apart.
      const families = new Set(passing.get(kind)?.map(({ family }) => family));
      const partly = traffic.filter(({ family }) => families.has(family));
      return faultOf(filter, packetsOf(kind, traffic), peersOf(partly));
    }),
    unread:
      doubt === undefined
        ? []
        : [`${nameOf(filter)} is not read to its end: it has a rule with ${doubt.verdict.slice(1)}`],
  };
}

/**
 * Returns what the filter is concerned with, by nodes that it does not tell apart: every rule is judged for each class once. Nodes that
 * few rules name come first, since a list of nodes that lacks one does not name it.
 */
function classesOf(filter: HostFilter, all: readonly NeededTraffic[]): readonly (readonly NeededTraffic[])[] {
  const concerned = all.filter((each) => concerns(filter, each));
  const field = filter.hook === 'input' ? /^!?saddr / : /^!?daddr /;
  const matches = Object.values(filter.rules).flatMap((rules) => rules.flatMap((rule) => rule.matches));
  const peers = new AddressIndex([...new Set(peersOf(concerned))].map((peer) => ({ address: peer, entry: peer })));
  const matchesOf = new Map<Address | undefined, string[]>();
  for (const match of new Set(matches.filter((each) => field.test(each))))
    for (const peer of entriesIn(match, peers)) getOrInsert(matchesOf, peer, () => []).push(match);
  const classOf = ({ kind, family, iifname, oifname, isAnswer, peer }: NeededTraffic): string =>
    [kind, family, iifname, oifname, isAnswer, ...(matchesOf.get(peer) ?? [])].join();
  const countOf = ([first]: readonly NeededTraffic[]): number => matchesOf.get(first?.peer)?.length ?? 0;
  return [...Map.groupBy(concerned, classOf).values()]
    .toSorted((one, other) => countOf(one) - countOf(other))
    .slice(0, MOST_CLASSES);
}

function peersOf(traffic: readonly NeededTraffic[]): readonly Address[] {
  return traffic.flatMap(({ peer }) => (peer === undefined ? [] : [peer]));
}

function nameOf({ family, table, chain }: HostFilter): string {
  return `chain ${chain} of table "${family} ${table}"`;
}

interface Packets {
  readonly code: FirewallFault['code'];
  readonly text: string;
  /** What to do with them. */
  readonly accept: string;
  /** Options of iptables and conditions of nft, one rule each, and how to make it permanent with ufw and firewalld. */
  readonly iptables: readonly string[];
  readonly nft: readonly string[];
  readonly ufw?: string;
  readonly firewalld?: string;
}

const THESE = 'Accept these packets now';
const [FROM_PODS, TO_PODS] = [
  { iptables: `-i ${HOST_LINK_PREFIX}+`, nft: `iifname '"${HOST_LINK_PREFIX}*"'` },
  { iptables: `-o ${HOST_LINK_PREFIX}+`, nft: `oifname '"${HOST_LINK_PREFIX}*"'` },
] as const;
const PACKETS: Readonly<Record<'pods' | 'vxlan' | 'ipip', Packets>> = {
  pods: {
    code: 'kernel/forward-dropped',
    text: 'packets of pods',
    accept: 'Accept packets of pods now',
    iptables: [FROM_PODS.iptables, TO_PODS.iptables],
    nft: [FROM_PODS.nft, TO_PODS.nft],
    ufw: 'set DEFAULT_FORWARD_POLICY="ACCEPT" in /etc/default/ufw to make that permanent',
    firewalld: `firewall-cmd --permanent --zone=trusted --add-interface=${HOST_LINK_PREFIX}+`,
  },
  vxlan: {
    code: 'kernel/tunnel-dropped',
    text: 'VXLAN (UDP 4789)',
    accept: THESE,
    iptables: ['-p udp --dport 4789'],
    nft: ['udp dport 4789'],
    ufw: 'make that permanent with "ufw allow 4789/udp"',
    firewalld: 'firewall-cmd --permanent --add-port=4789/udp',
  },
  ipip: {
    code: 'kernel/tunnel-dropped',
    text: 'IP-in-IP (protocol 4)',
    accept: THESE,
    iptables: ['-p 4'],
    nft: ['meta l4proto 4'],
    ufw: 'make that permanent with "-A ufw-before-input -p 4 -j ACCEPT" in /etc/ufw/before.rules',
    firewalld: 'firewall-cmd --permanent --add-protocol=ipv4',
  },
};

function packetsOf(kind: TrafficKind, dropped: readonly NeededTraffic[]): Packets {
  if (kind === 'outside') return packetsOutside(dropped);
  if (kind !== 'bgp') return PACKETS[kind];
  const port = String(dropped[0]?.dport);
  return {
    code: 'kernel/bgp-dropped',
    text: `BGP (TCP ${port})`,
    accept: THESE,
    iptables: [`-p tcp --dport ${port}`],
    nft: [`tcp dport ${port}`],
    ufw: `make that permanent with "ufw allow ${port}/tcp"`,
    firewalld: `firewall-cmd --permanent --add-port=${port}/tcp`,
  };
}

/** Without answers a pod opens no connections. */
function packetsOutside(dropped: readonly NeededTraffic[]): Packets {
  const [isOfPods, isToPods] = [
    dropped.some(({ oifname, isAnswer }) => oifname !== LINKS || isAnswer === true),
    dropped.some(({ oifname }) => oifname === LINKS),
  ];
  const rules = [...(isOfPods ? [FROM_PODS] : []), ...(isToPods ? [TO_PODS] : [])];
  return {
    code: 'kernel/outside-dropped',
    text: `connections ${isOfPods ? (isToPods ? 'between pods and' : 'of pods to') : 'to pods from'} addresses outside the pools`,
    accept: 'If pods or Services need them, accept these packets now',
    iptables: rules.map(({ iptables }) => iptables),
    nft: rules.map(({ nft }) => nft),
  };
}

/** The chain that Docker calls first and leaves to administrators. */
const DOCKER_USER = 'DOCKER-USER';
const UFW = /^ufw6?-before-(input|forward)$/;
const FIREWALLD = 'firewalld';

function faultOf(filter: HostFilter, packets: Packets, peers: readonly Address[]): FirewallFault {
  const whose = peers.length === 0 ? 'other nodes' : listed(peers);
  const ends = { input: ` from ${whose}`, output: ` to ${whose}`, forward: '' }[filter.hook];
  return {
    code: packets.code,
    found: `${nameOf(filter)} drops ${packets.text}${ends}`,
    remedy: remedyOf(filter, packets),
    ...commandOf(filter, packets),
  };
}

function listed(peers: readonly Address[]): string {
  const shown = peers.slice(0, SHOWN).map(formatAddress);
  return peers.length > SHOWN
    ? `${shown.join(', ')} and ${counted(peers.length - SHOWN, 'other node')}`
    : shown.join(', ');
}

function remedyOf({ table, rules }: HostFilter, { accept, ufw, firewalld }: Packets): string {
  if (ufw !== undefined && Object.keys(rules).some((name) => UFW.test(name))) return `${accept}, and ${ufw}`;
  if (firewalld !== undefined && table === FIREWALLD) return `${accept}, and make that permanent with "${firewalld}"`;
  return `${accept}, and configure the firewall to make that permanent`;
}

/** Returns a command of the tool that owns the table, since iptables cannot read every rule that nft writes. */
function commandOf(
  { family, table, chain, hook, isLegacy, rules }: HostFilter,
  { iptables, nft }: Packets,
): { readonly command?: string } {
  const into = DOCKER_USER in rules ? DOCKER_USER : chain;
  if (![table, chain, into].every(isPlain)) return {};
  const isIptables = family !== 'inet' && table === 'filter' && chain === hook.toUpperCase();
  if (!isIptables)
    return { command: nft.map((match) => `nft insert rule ${family} ${table} ${chain} ${match} accept`).join(' && ') };
  const program = `${family === 'ip' ? 'iptables' : 'ip6tables'}-${isLegacy ? 'legacy' : 'nft'}`;
  return { command: iptables.map((match) => `${program} -I ${into} ${match} -j ACCEPT`).join(' && ') };
}

/** Reports whether the name, which any program may have chosen, can stand in a command as it is. */
function isPlain(name: string): boolean {
  return /^[\w./-]+$/.test(name);
}
