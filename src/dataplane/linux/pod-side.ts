import { type Address, type Family, formatAddress, parseAddress } from '../../net/address.ts';
import { formatCidr, hostCidr } from '../../net/cidr.ts';
import { HOST_MAC } from '../../net/mac.ts';
import { GATEWAYS, type PodNetwork } from '../kernel.ts';
import { familiesOf, podSysctls, type Sysctl, sysctl } from '../link-sysctls.ts';
import { addAddress } from './address-messages.ts';
import { LOOPBACK_INDEX, setLinkUp } from './link-messages.ts';
import { setPermanentNeighbour } from './neighbour-messages.ts';
import { addRoute, type NewRoute } from './route-messages.ts';
import type { RouteSocket } from './route-socket.ts';
import { readSysctl, writeSysctl } from './sysctl.ts';

type Pod = Pick<PodNetwork, 'netns' | 'podLinkName' | 'addresses' | 'routes' | 'allowIpForwarding'>;

const EEXIST = 17;
/** Behind the metric 1024 that the kernel gives IPv6 routes. */
const LATER_PRIORITY = 2000;

export function gatewayOf(family: Family): Address {
  return parseAddress(GATEWAYS[family]);
}

/**
 * Writes the settings that differ; to be run inside the pod's namespace. What there was before goes to `changed`,
 * which is filled also when a write fails, for whoever has to take it back.
 */
export function writePodSysctls(pod: Pod, changed: Sysctl[]): void {
  for (const wanted of podSysctls(pod)) {
    const before = readSysctl(wanted.path);
    if (before === wanted.value) continue;
    writeSysctl(wanted, inNetns(pod));
    if (before !== undefined && !wanted.path.includes(`/${pod.podLinkName}/`)) {
      changed.push(sysctl(wanted.path, before));
    }
  }
}

/** Brings the pod's end up and gives it addresses, gateways and routes. `inside` speaks to the pod's namespace. */
export function configurePodLink(inside: RouteSocket, pod: Pod, index: number): void {
  const link = `interface "${pod.podLinkName}" ${inNetns(pod)}`;
  inside.request(`bring up interface "lo" ${inNetns(pod)}`, setLinkUp(LOOPBACK_INDEX));
  inside.request(`bring up ${link}`, setLinkUp(index));
  for (const address of pod.addresses) {
    inside.request(`add address ${formatCidr(hostCidr(address))} to ${link}`, addAddress(index, address));
  }
  for (const family of familiesOf(pod.addresses)) addGateway(inside, { family, index, link });
  for (const destination of pod.routes) {
    const gateway = gatewayOf(destination.base.family);
    const what = `add route ${formatCidr(destination)} via ${formatAddress(gateway)} on ${link}`;
    addPodRoute(inside, what, { destination, deviceIndex: index, gateway });
  }
}

interface GatewayPlace {
  readonly family: Family;
  readonly index: number;
  readonly link: string;
}

/** Its hardware address is fixed, so the pod never has to ask, and reaches it even where nobody would answer. */
function addGateway(inside: RouteSocket, { family, index, link }: GatewayPlace): void {
  const gateway = gatewayOf(family);
  const text = formatAddress(gateway);
  const route = { destination: hostCidr(gateway), deviceIndex: index, gateway: undefined };
  addPodRoute(inside, `add the route to gateway ${text} on ${link}`, route);
  inside.request(`add gateway ${text} as neighbour on ${link}`, setPermanentNeighbour(index, gateway, HOST_MAC));
}

/** A pod with several interfaces keeps the routes of the first; those of later ones stand behind them. */
function addPodRoute(inside: RouteSocket, what: string, route: NewRoute): void {
  const { errno } = inside.ask(addRoute(route));
  if (errno === 0) return;
  const isTaken = errno === EEXIST;
  inside.request(what, addRoute(isTaken ? { ...route, priority: LATER_PRIORITY + route.deviceIndex } : route));
}

function inNetns({ netns }: Pick<Pod, 'netns'>): string {
  return `in namespace "${netns}"`;
}
