import { type HostEvent, ROUTE_PROTOCOL } from '../host-network.ts';
import { bitsOf } from '../../net/address.ts';
import { decodeAddress } from './address-messages.ts';
import type { Addon } from './addon.ts';
import { addressesInAlias } from '../link-alias.ts';
import { toHostRoute } from './host-tables.ts';
import { type Link, RTM_DELLINK, RTM_NEWLINK, decodeLink, listLinks } from './link-messages.ts';
import { isHostSide } from './links.ts';
import { ALL_LINKS, decodeReportedSettings, RTM_NEWNETCONF } from './netconf-messages.ts';
import { RTM_DELNEIGH, RTM_NEWNEIGH, decodeNote, neighbourIndex } from './neighbour-messages.ts';
import { decodeNotes, type Note } from './netlink.ts';
import { decodeQueue, RTM_NEWQDISC } from './queue-messages.ts';
import { RTM_DELROUTE, RTM_NEWROUTE, RT_TABLE_MAIN, type Route, decodeRoute } from './route-messages.ts';
import { RouteSocket, kernelFailure } from './route-socket.ts';
import { RTM_DELADDR, RTM_NEWADDR } from './address-messages.ts';
import { isTunnel } from './tunnel-owner.ts';

/** Links, neighbours, queues, IPv4 addresses, IPv4 routes, IPv6 addresses, IPv6 routes, IPv4 settings, IPv6 settings. */
const GROUPS: readonly number[] = [1, 3, 4, 5, 7, 9, 11, 24, 25];
const AF_UNSPEC = 0;

/** See HostNetwork.watch. */
export function watchHost(addon: Addon, onEvent: (event: HostEvent) => void): Disposable {
  const reader = new EventReader(addon);
  let isOver = false;
  const monitor = addon.openMonitor(groupMask(), (note) => {
    if (!isOver) for (const event of reader.read(note)) onEvent(event);
  });
  if (monitor < 0) throw kernelFailure('watch the network of the host', -monitor);
  reader.learnLinks();
  return {
    [Symbol.dispose]: () => {
      if (!isOver) addon.close(monitor);
      isOver = true;
    },
  };
}

/** Converts messages of the kernel into events. Caches links, because most messages name them by index. */
class EventReader {
  readonly #addon: Addon;
  readonly #links = new Map<number, Link>();

  constructor(addon: Addon) {
    this.#addon = addon;
  }

  /** Lists all links, at the start and after messages were lost. */
  learnLinks(): void {
    using socket = RouteSocket.open(this.#addon);
    const bodies = socket.list('list the interfaces of the host', listLinks());
    this.#links.clear();
    for (const link of bodies.map(decodeLink)) this.#links.set(link.index, link);
  }

  /** Returns the events in a note; a number means that the kernel has dropped messages. */
  read(note: Buffer | number): readonly HostEvent[] {
    if (typeof note !== 'number') return [...decodeNotes(note)].flatMap((one) => this.#eventOf(one) ?? []);
    this.learnLinks();
    return [{ kind: 'unknown' }];
  }

  #eventOf({ type, body }: Note): HostEvent | undefined {
    switch (type) {
      case RTM_NEWLINK:
      case RTM_DELLINK:
        return this.#eventOfLink(type, body);
      case RTM_NEWADDR:
      case RTM_DELADDR:
        return this.#eventOfAddress(body);
      case RTM_NEWROUTE:
        return this.#eventOfRoute('route-put', body);
      case RTM_DELROUTE:
        return this.#eventOfRoute('route-deleted', body);
      case RTM_NEWNEIGH:
        return this.#eventOfPeer('put', body);
      case RTM_DELNEIGH:
        return this.#eventOfPeer('deleted', body);
      case RTM_NEWNETCONF:
        return this.#eventOfSettings(body);
      case RTM_NEWQDISC:
        return this.#isLimit(body) ? { kind: 'rate-limits' } : undefined;
      default:
        return undefined;
    }
  }

  #eventOfLink(type: number, body: Buffer): HostEvent | undefined {
    // Bridges report changes of their ports in messages of their own family; the links themselves stay.
    if (body.readUInt8(0) !== AF_UNSPEC) return undefined;
    const link = decodeLink(body);
    const before = this.#links.get(link.index);
    const devices = [...new Set([before?.name ?? link.name, link.name])];
    if (type === RTM_NEWLINK) this.#links.set(link.index, link);
    else this.#links.delete(link.index);
    if (!isHostSide(link)) return { kind: 'links', devices };
    return type === RTM_NEWLINK && before?.isUp === true && !link.isUp ? { kind: 'pod-links' } : undefined;
  }

  #eventOfAddress(body: Buffer): HostEvent | undefined {
    const address = decodeAddress(body);
    if (address?.isGlobal !== true) return undefined;
    const link = this.#links.get(address.deviceIndex);
    return { kind: 'links', devices: link === undefined ? [] : [link.name] };
  }

  #eventOfPeer(change: 'put' | 'deleted', body: Buffer): HostEvent | undefined {
    const link = this.#links.get(neighbourIndex(body));
    const { table, address, mac, isPermanent } = decodeNote(body);
    if (link === undefined || !isTunnel(link) || address === undefined) return undefined;
    const device = link.name;
    if (table === 'forwarding')
      return mac === undefined ? undefined : { kind: `forwarding-${change}`, device, mac, remote: address };
    // Only permanent entries are the agent's; the kernel learns the others.
    const isPut = change === 'put' && isPermanent && mac !== undefined;
    return isPut
      ? { kind: 'neighbour-put', device, gateway: address, mac }
      : { kind: 'neighbour-deleted', device, gateway: address };
  }

  #eventOfRoute(kind: 'route-put' | 'route-deleted', body: Buffer): HostEvent | undefined {
    const route = decodeRoute(body);
    if (route.protocol !== ROUTE_PROTOCOL || route.table !== RT_TABLE_MAIN) {
      if (kind === 'route-deleted' && this.#isOfPod(route)) return { kind: 'pod-links' };
      return this.#isForeignPath(route) ? { kind: 'paths' } : undefined;
    }
    const hostRoute = toHostRoute(route, (index) => this.#links.get(index)?.name);
    return hostRoute === undefined ? { kind: 'unknown' } : { kind, route: hostRoute };
  }

  /** Settings of a link that is still made are those of its ADD, whose last message names the addresses. */
  #eventOfSettings(body: Buffer): HostEvent | undefined {
    const { index, forwarding, rpFilter, proxyNeigh } = decodeReportedSettings(body);
    const mayDrop = [forwarding, proxyNeigh].includes(0) || rpFilter !== undefined;
    if (!mayDrop) return undefined;
    if (index === ALL_LINKS) return forwarding === 0 ? { kind: 'settings', devices: [] } : undefined;
    const link = this.#links.get(index);
    if (link === undefined) return undefined;
    if (!isHostSide(link)) return { kind: 'settings', devices: [link.name] };
    return addressesInAlias(link.alias).length > 0 ? { kind: 'pod-settings' } : undefined;
  }

  /** Reports whether a queue is that of a limit, on a link of a pod or on a device for what a pod sends. */
  #isLimit(body: Buffer): boolean {
    const { deviceIndex, kind } = decodeQueue(body);
    const link = this.#links.get(deviceIndex);
    return kind === 'tbf' && link !== undefined && (isHostSide(link) || link.kind === 'ifb');
  }

  #isForeignPath(route: Route): boolean {
    const { destination, type } = route;
    const isSingle = destination.prefixBits === bitsOf(destination.base.family);
    return type === 'unicast' && isSingle && !this.#isOfPod(route);
  }

  #isOfPod({ deviceIndex }: Route): boolean {
    const link = deviceIndex === undefined ? undefined : this.#links.get(deviceIndex);
    return link !== undefined && isHostSide(link);
  }
}

function groupMask(): number {
  return GROUPS.reduce((mask, group) => mask | (1 << (group - 1)), 0);
}
