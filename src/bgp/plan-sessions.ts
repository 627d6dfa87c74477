import { at, type Problem } from '../base/problem.ts';
import { formatAddress, sameAddress } from '../net/address.ts';
import { cidrContains, parseCidr } from '../net/cidr.ts';
import { type BgpSettings, bgpSettingsOf, DEFAULT_RESTART_TIME_S } from './bgp-settings.ts';
import type { PlannedSession } from './session.ts';
import type { Speaker } from './speaker.ts';
import { type BgpResources, type BgpWorld, bgpWorldOf, type WantedPeer, wantedPeersOf } from './wanted-peers.ts';

export interface SessionsInput extends BgpResources {
  /** Node whose sessions are planned. */
  readonly nodeName: string;
}

export interface SessionsPlan {
  /** Ordered by name. */
  readonly sessions: readonly PlannedSession[];
  /** The reasons why configured sessions are left out. */
  readonly problems: readonly Problem[];
}

const LINK_LOCAL = parseCidr('fe80::/10');

/** Plans the BGP sessions of one node; none while the node has no BGP address. */
export function planSessions({ nodeName, ...resources }: SessionsInput): SessionsPlan {
  const settings = bgpSettingsOf(nodeName, resources.configurations);
  const world = bgpWorldOf(resources, settings.isMeshEnabled);
  const self = world.speakers.get(nodeName);
  if (self === undefined) return { sessions: [], problems: [] };
  const sessions: PlannedSession[] = [];
  const problems = clusterIdProblems(nodeName, resources);
  for (const wanted of wantedPeersOf(self, world)) {
    const reason = whyUnusable(self, wanted);
    if (reason === undefined) sessions.push(sessionWith(wanted, { self, world, settings }));
    else problems.push(unusable(wanted, reason));
  }
  return { sessions: sessions.sort((a, b) => (a.name < b.name ? -1 : 1)), problems };
}

interface Side {
  readonly self: Speaker;
  readonly world: BgpWorld;
  readonly settings: BgpSettings;
}

function sessionWith(wanted: WantedPeer, { self, world, settings }: Side): PlannedSession {
  const { kind, address, port, asNumber, speaker } = wanted;
  const spec = wanted.resource?.spec;
  const own = self.addresses[address.family];
  const isInternal = asNumber === self.asNumber;
  const isReflected = isInternal && self.clusterId !== undefined;
  const isFellowReflector =
    self.clusterId !== undefined && speaker?.clusterId !== undefined && sameAddress(self.clusterId, speaker.clusterId);
  return {
    name: `peer_${formatAddress(address).replaceAll(/[.:]/g, '_')}_${String(port)}`,
    kind,
    family: address.family,
    peerNode: speaker?.name,
    peerAddress: address,
    peerPort: port,
    peerAs: asNumber,
    ownAs: self.asNumber,
    listenPort: settings.listenPort,
    sourceAddress: spec?.sourceAddress === 'None' ? undefined : own?.address,
    reach: own !== undefined && cidrContains(own.cidr, address) ? 'direct' : 'multihop',
    isPassive: isPassive(self, wanted, world),
    reflectorClusterId: isReflected && !isFellowReflector ? self.clusterId : undefined,
    announces: isReflected || (!isInternal && kind !== 'mesh') ? 'own-and-learned' : 'own',
    accepts: speaker === undefined ? 'everything' : 'pools',
    nextHop: isInternal || spec?.keepOriginalNextHop === true ? 'keep' : 'self',
    restartTimeS: spec === undefined ? settings.meshRestartTimeS : (spec.maxRestartTime ?? DEFAULT_RESTART_TIME_S),
    allowedOwnAs: spec?.numAllowedLocalASNumbers ?? 0,
    ttlSecurityHops: spec?.ttlSecurity,
    bfd: spec === undefined ? settings.meshBfd : spec.bfd,
    passwordReference: spec === undefined ? settings.meshPassword : spec.password,
  };
}

/**
 * Reports whether this node waits for the connection. Of two nodes that are peers of each other, the one with the higher
 * address waits: a second connection while the first is up counts as a restart of the other side.
 */
function isPassive(self: Speaker, { address, speaker, resource }: WantedPeer, world: BgpWorld): boolean {
  const own = self.addresses[address.family]?.address;
  if (speaker === undefined || own === undefined || own.value < address.value) return false;
  const isMutual = resource === undefined || resource.spec.peerSelector !== undefined;
  return isMutual || wantedPeersOf(speaker, world).some((wanted) => sameAddress(wanted.address, own));
}

function whyUnusable(self: Speaker, { address, resource }: WantedPeer): string | undefined {
  if (address.value === 0n) return 'the unspecified address identifies no peer';
  if (cidrContains(LINK_LOCAL, address)) return 'a link-local address does not identify the link';
  const isBound = resource?.spec.sourceAddress !== 'None';
  if (isBound && self.addresses[address.family] === undefined)
    return `node "${self.name}" has no IPv${String(address.family)} address`;
  // Writers refuse it; a stored one would make BIRD refuse every session.
  if (!isBound && resource?.spec.bfd !== undefined) return 'BFD needs sourceAddress "UseNodeIP"';
  return undefined;
}

function unusable({ address, resource }: WantedPeer, reason: string): Problem {
  return {
    path: at('BGPPeer', resource?.metadata.name ?? '', 'spec', 'peerIP'),
    message: `no session with ${formatAddress(address)}: ${reason}`,
    code: 'bgp/peer-unusable',
  };
}

function clusterIdProblems(nodeName: string, { nodes }: BgpResources): Problem[] {
  const id = nodes.find(({ metadata }) => metadata.name === nodeName)?.spec.bgp?.routeReflectorClusterID;
  if (id?.includes(':') !== true) return [];
  return [
    {
      path: at('Node', nodeName, 'spec', 'bgp', 'routeReflectorClusterID'),
      message: `"${id}" is not a cluster id in the form of an IPv4 address; the node reflects no routes`,
      code: 'bgp/peer-unusable',
    },
  ];
}
