import type { BgpConfiguration } from '../model/bgp-configuration.ts';
import { type BgpPeer, type BgpPeerSpec, readPeerIp } from '../model/bgp-peer.ts';
import type { Node } from '../model/node.ts';
import { matchesSelector } from '../model/selector.ts';
import { type Address, FAMILIES, formatAddress, sameAddress } from '../net/address.ts';
import { DEFAULT_PORT } from './bgp-settings.ts';
import type { SessionKind } from './session.ts';
import { type Speaker, speakersByAddress, speakersOf } from './speaker.ts';

/** The resources that determine the BGP sessions of a cluster. */
export interface BgpResources {
  readonly nodes: readonly Node[];
  readonly configurations: readonly BgpConfiguration[];
  readonly peers: readonly BgpPeer[];
}

/** The nodes that can be reached, and the peers in a fixed order. */
export interface BgpWorld {
  readonly speakers: ReadonlyMap<string, Speaker>;
  readonly byAddress: ReadonlyMap<string, Speaker>;
  /** Ordered by name. */
  readonly peers: readonly BgpPeer[];
  readonly isMeshEnabled: boolean;
}

/** One desired peer of a node, and the resource that asks for it. */
export interface WantedPeer {
  readonly kind: SessionKind;
  readonly address: Address;
  readonly port: number;
  readonly asNumber: number;
  /** The node that it is. */
  readonly speaker: Speaker | undefined;
  /** Undefined in the mesh. */
  readonly resource: BgpPeer | undefined;
}

export function bgpWorldOf(resources: BgpResources, isMeshEnabled: boolean): BgpWorld {
  const speakers = speakersOf(resources.nodes, resources.configurations);
  const peers = resources.peers.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  return { speakers, byAddress: speakersByAddress(speakers.values()), peers, isMeshEnabled };
}

/**
 * Returns the peers of the node, one per address and port. Of several resources for the same endpoint, a peer of selected
 * nodes takes precedence over a peer of all nodes, that over the mesh, and then the first name. Nodes that `peerSelector`
 * selects also have the session, so that both ends are configured.
 */
export function wantedPeersOf(self: Speaker, world: BgpWorld): WantedPeer[] {
  const asked = world.peers.flatMap((peer) => peersOfResource(self, peer, world));
  const all = [
    ...asked.filter(({ kind }) => kind === 'node'),
    ...asked.filter(({ kind }) => kind === 'global'),
    ...meshPeersOf(self, world),
  ];
  const byEndpoint = new Map<string, WantedPeer>();
  for (const wanted of all) {
    const endpoint = `${formatAddress(wanted.address)} ${String(wanted.port)}`;
    const isSelf = Object.values(self.addresses).some(({ address }) => sameAddress(address, wanted.address));
    if (!isSelf && !byEndpoint.has(endpoint)) byEndpoint.set(endpoint, wanted);
  }
  return [...byEndpoint.values()];
}

function meshPeersOf(self: Speaker, { speakers, isMeshEnabled }: BgpWorld): WantedPeer[] {
  if (!isMeshEnabled || self.clusterId !== undefined) return [];
  return [...speakers.values()]
    .filter((other) => other.clusterId === undefined)
    .flatMap((other) => nodePeers(self, other, { kind: 'mesh', resource: undefined }));
}

function peersOfResource(self: Speaker, resource: BgpPeer, { speakers, byAddress }: BgpWorld): WantedPeer[] {
  const { spec } = resource;
  const kind = spec.node === undefined && spec.nodeSelector === undefined ? 'global' : 'node';
  const { peerSelector } = spec;
  if (peerSelector !== undefined) {
    const isChooser = isChosen(self, spec);
    const isPeer = matchesSelector(peerSelector, self.labels);
    return [...speakers.values()]
      .filter(
        (other) => (isChooser && matchesSelector(peerSelector, other.labels)) || (isPeer && isChosen(other, spec)),
      )
      .flatMap((other) => nodePeers(self, other, { kind, resource }));
  }
  const endpoint = spec.peerIP === undefined ? undefined : readPeerIp(spec.peerIP);
  // Writers refuse a peer without address or AS number; a stored one is ignored.
  if (endpoint === undefined || spec.asNumber === undefined || !isChosen(self, spec)) return [];
  const speaker = byAddress.get(formatAddress(endpoint.address));
  const port = endpoint.port ?? speaker?.port ?? DEFAULT_PORT;
  return [{ kind, address: endpoint.address, port, asNumber: spec.asNumber, speaker, resource }];
}

function isChosen(speaker: Speaker, { node, nodeSelector }: BgpPeerSpec): boolean {
  if (node !== undefined) return node === speaker.name;
  return nodeSelector === undefined || matchesSelector(nodeSelector, speaker.labels);
}

/** Returns one peer for each address family that both nodes have. */
function nodePeers(self: Speaker, other: Speaker, why: Pick<WantedPeer, 'kind' | 'resource'>): WantedPeer[] {
  if (other.name === self.name) return [];
  return FAMILIES.flatMap((family) => {
    const address = other.addresses[family]?.address;
    if (address === undefined || self.addresses[family] === undefined) return [];
    return [{ ...why, address, port: other.port, asNumber: other.asNumber, speaker: other }];
  });
}
