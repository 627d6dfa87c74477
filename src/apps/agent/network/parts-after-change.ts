import { never } from '../../../base/errors.ts';
import type { ClusterChange } from '../../../cache/cluster-view.ts';
import type { HostEvent } from '../../../dataplane/host-network.ts';
import type { RoutedBlock } from '../../../datastore/follow.ts';
import type { NodeName } from '../../../model/names.ts';
import { type NetworkPart, PARTS } from './network-parts.ts';

/** What a change of the cluster means for the node. */
export interface AffectedParts {
  /** The parts, except routes, that depend on it. */
  readonly parts: readonly NetworkPart[];
  /** Whether the addresses of the node's tunnels must be assigned anew. */
  readonly requiresTunnelAddresses: boolean;
}

export interface ChangeContext {
  readonly node: NodeName;
  /** The block before the change; undefined when there was none. */
  readonly before: RoutedBlock | undefined;
  /** Reports whether a tunnel of the node has its address in the block. */
  readonly hasTunnelAddressIn: (change: ClusterChange & { readonly kind: 'block' }) => boolean;
  /** Whether the node waits for an address that another node publishes. */
  readonly areClaimsOpen: boolean;
}

/** Returns what depends on a change of the cluster. Pure. */
export function partsAfterChange(
  change: ClusterChange,
  { node, before, hasTunnelAddressIn, areClaimsOpen }: ChangeContext,
): AffectedParts {
  switch (change.kind) {
    case 'all':
      return { parts: PARTS, requiresTunnelAddresses: true };
    case 'block': {
      const isOwn = isOwnBlock(change.block, node);
      if (!isOwn && hasTunnelAddressIn(change)) return { parts: ['tunnels', 'bgp'], requiresTunnelAddresses: true };
      return { parts: isOwn || isOwnBlock(before, node) ? ['bgp'] : [], requiresTunnelAddresses: false };
    }
    case 'resource': {
      const { kind } = change.which;
      if (kind === 'IPPool') return { parts: ['addresses', 'tunnels', 'nat', 'bgp'], requiresTunnelAddresses: true };
      if (isOfNode(change, node))
        return { parts: ['addresses', 'tunnels', 'facts', 'bgp'], requiresTunnelAddresses: true };
      const mayFree = kind === 'Node' && areClaimsOpen;
      return { parts: mayFree ? ['addresses', 'bgp'] : ['bgp'], requiresTunnelAddresses: false };
    }
    default:
      return never(change);
  }
}

/** Returns what depends on a change of the host, apart from links of pods. Pure. */
export function partsAfterHostEvent(
  event: HostEvent,
  { isDrift, usesDevice }: { readonly isDrift: boolean; readonly usesDevice: (device: string) => boolean },
): readonly NetworkPart[] {
  if (event.kind === 'settings') {
    if (event.devices.length === 0) return ['addresses'];
    return event.devices.some(usesDevice) ? ['addresses', 'tunnels'] : [];
  }
  const isOfLinks = event.kind === 'links' || event.kind === 'unknown';
  if (isOfLinks) return isDrift ? ['addresses', 'tunnels', 'routes'] : ['addresses'];
  return isDrift ? ['routes'] : [];
}

/** Reports whether the change is of the Node itself. */
export function isOfNode(change: ClusterChange, node: NodeName): boolean {
  return change.kind === 'resource' && change.which.kind === 'Node' && change.which.name === node;
}

/** Reports whether the node has addresses of the block, which BGP must then announce. */
function isOwnBlock(block: RoutedBlock | undefined, node: NodeName): boolean {
  return block !== undefined && (block.node === node || block.borrowed.has(node));
}
