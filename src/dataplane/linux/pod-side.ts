import { type Address, type Family, formatAddress, parseAddress } from '../../net/address.ts';
import { type Cidr, formatCidr, hostCidr } from '../../net/cidr.ts';
import { HOST_MAC } from '../../net/mac.ts';
import { GATEWAYS, type PodNetwork } from '../kernel.ts';
import { familiesOf, podSysctls, type Sysctl, sysctl } from '../link-sysctls.ts';
import { addAddress } from './address-messages.ts';
import { LOOPBACK_INDEX, setLinkUp } from './link-messages.ts';
import { setPermanentNeighbour } from './neighbour-messages.ts';
import { decodeIpForward, getIpv4Netconf } from './netconf-messages.ts';
import { addRoute, type NewRoute } from './route-messages.ts';
import { kernelFailure, type RouteSocket } from './route-socket.ts';
import { addSourceRule, deleteSourceRule } from './rule-messages.ts';
import { readSysctl, writeSysctl } from './sysctl.ts';

type Pod = Pick<PodNetwork, 'netns' | 'podLinkName' | 'addresses' | 'routes' | 'allowIpForwarding'>;

const EEXIST = 17;
const IP_FORWARD = 'ipv4/ip_forward';
/** Higher than 1024, the kernel's default metric of IPv6 routes. */
const LATER_PRIORITY = 2000;
/** The table of an interface has this number plus the index of the interface. */
const LATER_TABLES = 1_000_000;

/** Prefix length of the IPv6 gateway on the host side. */
export const LINK_LOCAL_BITS = 64;

export function gatewayOf(family: Family): Address {
  return parseAddress(GATEWAYS[family]);
}

/** Returns the settings of the pod's namespace to write. IPv4 forwarding, which most pods never change, is left out when it matches. */
export function pendingPodSysctls(inside: RouteSocket, pod: Pod): readonly Sysctl[] {
  return podSysctls(pod).filter(({ path, value }) => {
    if (path !== IP_FORWARD) return true;
    const [body] = inside.ask(getIpv4Netconf()).bodies;
    return body === undefined || String(decodeIpForward(body)) !== value;
  });
}

/**
 * Writes the settings that differ. Must run inside the pod's namespace. Adds previous values to `changed`, also when a
 * write fails, so that the caller can restore them.
 */
export function writePodSysctls(pod: Pod, settings: readonly Sysctl[], changed: Sysctl[]): void {
  for (const wanted of settings) {
    const before = readSysctl(wanted.path);
    if (before === wanted.value) continue;
    writeSysctl(wanted, inNetns(pod));
    if (before !== undefined && !wanted.path.includes(`/${pod.podLinkName}/`)) {
      changed.push(sysctl(wanted.path, before));
    }
  }
}

/**
 * Brings the pod's end up and adds addresses, gateways and routes. `inside` is a socket in the pod's namespace. Returns
 * the addresses that got a source rule, as those of a second interface do; `removeSourceRules` removes the rules.
 */
export function configurePodLink(inside: RouteSocket, pod: Pod, index: number): readonly Address[] {
  const link = `interface "${pod.podLinkName}" ${inNetns(pod)}`;
  const families = [...familiesOf(pod.addresses)];
  const routes = [
    ...families.map((family) => gatewayRoute({ family, index, link })),
    ...pod.routes.map((destination) => podRoute(destination, { index, link })),
  ];
  const [first, ...rest] = [
    { what: `bring up interface "lo" ${inNetns(pod)}`, message: setLinkUp(LOOPBACK_INDEX) },
    { what: `bring up ${link}`, message: setLinkUp(index) },
    ...pod.addresses.map((address) => ({
      what: `add address ${formatCidr(hostCidr(address))} to ${link}`,
      message: addAddress(index, address),
    })),
    // The MAC of the gateway is fixed, so the pod needs no neighbour discovery.
    ...families.map((family) => ({
      what: `add gateway ${GATEWAYS[family]} as neighbour on ${link}`,
      message: setPermanentNeighbour(index, gatewayOf(family), HOST_MAC),
    })),
  ] as const;
  const replies = inside.requestAll(
    [first, ...rest],
    routes.map(({ route }) => addRoute(route)),
  );
  const later = new Set<Family>();
  for (const [at, { what, route }] of routes.entries()) {
    if (replies[at]?.errno === 0) continue;
    const place = addPodRoute(inside, what, route);
    if (place === 'behind another' && route.gateway === undefined) later.add(route.destination.base.family);
  }
  for (const family of later) addOwnTable(inside, { family, index, link });
  const ruled = pod.addresses.filter(({ family }) => later.has(family));
  for (const address of ruled) addRuleFor(inside, address, index);
  return ruled;
}

/** Removes the source rules of the addresses. */
export function removeSourceRules(inside: RouteSocket, addresses: readonly Address[], index: number): void {
  for (const address of addresses) inside.ask(deleteSourceRule(address, LATER_TABLES + index));
}

interface GatewayPlace {
  readonly family: Family;
  readonly index: number;
  readonly link: string;
}

interface PodRoute {
  /** Completes "Cannot …". */
  readonly what: string;
  readonly route: NewRoute;
}

function gatewayRoute({ family, index, link }: GatewayPlace): PodRoute {
  const destination = hostCidr(gatewayOf(family));
  const what = `add the route to gateway ${GATEWAYS[family]} on ${link}`;
  return { what, route: { destination, deviceIndex: index, gateway: undefined } };
}

function podRoute(destination: Cidr, { index, link }: Pick<GatewayPlace, 'index' | 'link'>): PodRoute {
  const gateway = gatewayOf(destination.base.family);
  const what = `add route ${formatCidr(destination)} via ${formatAddress(gateway)} on ${link}`;
  return { what, route: { destination, deviceIndex: index, gateway } };
}

/**
 * Adds a routing table with a default route for a later interface. Packets with its addresses must leave through it,
 * because the host accepts an address only from the interface that has it.
 */
function addOwnTable(inside: RouteSocket, { family, index, link }: GatewayPlace): void {
  const gateway = gatewayOf(family);
  const everything: Cidr = { base: { family, value: 0n }, prefixBits: 0 };
  const own = { deviceIndex: index, table: LATER_TABLES + index };
  const what = `add the routes of its own addresses to ${link}`;
  inside.request(what, addRoute({ ...own, destination: hostCidr(gateway), gateway: undefined }));
  inside.request(what, addRoute({ ...own, destination: everything, gateway }));
}

function addRuleFor(inside: RouteSocket, address: Address, index: number): void {
  const rule = addSourceRule(address, LATER_TABLES + index);
  const what = `have packets from ${formatAddress(address)} take the routes of its own interface`;
  const { errno } = inside.ask(rule);
  // EEXIST: an earlier interface of that index and address left its rule.
  if (errno !== 0 && errno !== EEXIST) throw kernelFailure(what, errno);
}

/** Whether a route is the preferred one, or comes after that of an earlier interface. */
type RoutePlace = 'first' | 'behind another';

/** Adds a route of the pod, with a higher metric when an earlier interface has a route to the same destination. */
function addPodRoute(inside: RouteSocket, what: string, route: NewRoute): RoutePlace {
  const { errno } = inside.ask(addRoute(route));
  if (errno === 0) return 'first';
  const isTaken = errno === EEXIST;
  inside.request(what, addRoute(isTaken ? { ...route, priority: LATER_PRIORITY + route.deviceIndex } : route));
  return isTaken ? 'behind another' : 'first';
}

function inNetns({ netns }: Pick<Pod, 'netns'>): string {
  return `in namespace "${netns}"`;
}
