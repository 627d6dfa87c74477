import type { HostChange, HostEvent, HostRoute, TunnelPeer } from '../dataplane/host-network.ts';
import { never } from '../base/errors.ts';
import { sameAddress } from '../net/address.ts';
import { peerKey, routeKey, sameHop, samePeer } from './same-network.ts';

/** Routes and tunnel peers: the desired or the actual ones. */
export interface Tables {
  readonly routes: ReadonlyMap<string, HostRoute>;
  readonly peers: ReadonlyMap<string, TunnelPeer>;
}

export function tablesOf(routes: readonly HostRoute[], peers: readonly TunnelPeer[]): Tables {
  return { routes: keyed(routes, routeKey), peers: keyed(peers, peerKey) };
}

function keyed<T>(all: readonly T[], keyOf: (one: T) => string): ReadonlyMap<string, T> {
  return new Map(all.map((one) => [keyOf(one), one]));
}

/** Returns the changes from actual to desired tables. Routes are replaced in place, so that no packet is lost. */
export function diffTables(desired: Tables, actual: Tables): readonly HostChange[] {
  const changes: HostChange[] = [];
  for (const [key, peer] of desired.peers) {
    const there = actual.peers.get(key);
    if (there === undefined || !samePeer(there, peer)) changes.push({ kind: 'put-peer', peer });
  }
  for (const [key, route] of desired.routes) {
    const there = actual.routes.get(key);
    if (there === undefined || !sameHop(there.hop, route.hop)) changes.push({ kind: 'put-route', route });
  }
  for (const [key, route] of actual.routes) if (!desired.routes.has(key)) changes.push({ kind: 'delete-route', route });
  for (const [key, peer] of actual.peers) if (!desired.peers.has(key)) changes.push({ kind: 'delete-peer', peer });
  return changes;
}

/** Reports whether an event on the host may mean that desired routes or peers have been changed, or lost with their link. */
export function isDrift(event: HostEvent, desired: Tables & { usesDevice(device: string): boolean }): boolean {
  const { routes, peers } = desired;
  switch (event.kind) {
    case 'route-put': {
      const wanted = routes.get(routeKey(event.route));
      return wanted === undefined || !sameHop(wanted.hop, event.route.hop);
    }
    case 'route-deleted':
      return routes.has(routeKey(event.route));
    case 'neighbour-put':
      return peers.get(peerKey(event))?.mac !== event.mac;
    case 'neighbour-deleted':
      return peers.has(peerKey(event));
    case 'forwarding-put':
      return !isWantedForwarding(event, peers);
    case 'forwarding-deleted':
      return isWantedForwarding(event, peers);
    case 'links':
      return event.devices.some((device) => desired.usesDevice(device));
    case 'unknown':
      return true;
    case 'paths':
    case 'pod-links':
    case 'pod-settings':
    case 'settings':
    case 'rate-limits':
      return false;
    default:
      return never(event);
  }
}

function isWantedForwarding(
  { device, mac, remote }: Pick<TunnelPeer, 'device' | 'mac' | 'remote'>,
  peers: Tables['peers'],
): boolean {
  for (const peer of peers.values())
    if (peer.device === device && peer.mac === mac && sameAddress(peer.remote, remote)) return true;
  return false;
}
