import { counted } from '../../base/counted.ts';
import { type Address, formatAddress } from '../../net/address.ts';
import type { PolicyView } from '../policy-view.ts';
import type { ReachChange } from './compare-reach.ts';
import type { Peer } from './peer-classes.ts';
import { partWith } from './traffic.ts';
import { type DnsCache, isUsedOn, type VitalService, vitalServices } from './vital-services.ts';

const HOST = 'host/';
const SHOWN_PODS = 3;

/** Returns a warning for each part of the cluster itself that changes cut off, with the pods that are concerned. */
export function warnOfCuts(
  view: PolicyView,
  changes: readonly ReachChange[],
  caches: readonly DnsCache[] = [],
): readonly string[] {
  const cuts = changes.filter(({ verdict }) => verdict === 'deny');
  return vitalServices(view, caches).flatMap((service) => {
    const pods = new Set(cuts.flatMap((cut) => podsWithout(service, cut)));
    if (pods.size === 0) return [];
    const { remedy } = service;
    if (service.protects === 'clients')
      return [`cuts ${service.name} off for ${named(pods)}${remedy === undefined ? '' : `: ${remedy}`}`];
    const isEvery = pods.size > 1 && pods.size === countPods(view, service);
    return [`cuts connections of ${isEvery ? `every pod of ${service.name}` : named(pods)}`];
  });
}

function podsWithout(service: VitalService, { from, to, traffic, ends }: ReachChange): readonly string[] {
  const { addresses, ports, protects } = service;
  const isOwn = (peer: Peer): boolean => addressesOf(peer).some((address) => addresses.has(formatAddress(address)));
  if (protects === 'itself') {
    // What other pods may send is their own affair: only changes at its own ends count.
    return ends.flatMap(({ direction }) => (direction === 'egress' ? from : to).filter(isOwn).flatMap(nameOf));
  }
  const isCut =
    to.some(isOwn) && ports.some(({ protocol, port: first }) => partWith(traffic, { protocol, first }) !== undefined);
  return isCut ? from.filter((peer) => isClient(service, peer)).flatMap(nameOf) : [];
}

function isClient(service: VitalService, peer: Peer): boolean {
  if (peer.kind === 'pod') return isUsedOn(service, peer.endpoint.node);
  return peer.kind !== 'node' || isUsedOn(service, peer.name);
}

function addressesOf(peer: Peer): readonly Address[] {
  if (peer.kind === 'pod') return peer.endpoint.addresses;
  return peer.kind === 'net' ? [] : [peer.address];
}

function nameOf(peer: Peer): readonly string[] {
  if (peer.kind === 'node') return [`${HOST}${peer.name}`];
  return peer.kind === 'pod' ? [peer.endpoint.shown] : [];
}

function countPods(view: PolicyView, { addresses }: VitalService): number {
  const isIn = (address: Address): boolean => addresses.has(formatAddress(address));
  return [...view.endpoints.values()].filter((each) => each.kind === 'workload' && each.addresses.some(isIn)).length;
}

function named(pods: ReadonlySet<string>): string {
  const shown = [...pods].toSorted().slice(0, SHOWN_PODS).join(', ');
  const isPods = ![...pods].some((name) => name.startsWith(HOST));
  return pods.size <= SHOWN_PODS ? shown : `${counted(pods.size, isPods ? 'pod' : 'end')}, such as ${shown}`;
}
