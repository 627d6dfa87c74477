// Whether packets take the routes of netplug: the same look of the agent, of doctor and of why.
import { counted } from '../base/counted.ts';
import type { HostNetwork } from '../dataplane/host-network.ts';
import { type OverruledPath, type Overruling, REVERSE_PATH, type WantedPath } from '../dataplane/overruled-paths.ts';
import { type Address, addressKey, bitsOf, formatAddress, sameAddress } from '../net/address.ts';
import { cidrContains, formatCidr, hostCidr } from '../net/cidr.ts';

const MAIN_TABLE = 254;

export type PathPorts = Pick<HostNetwork, 'listPodLinks' | 'listRoutes' | 'findOverruled'>;

/** Problem of the node: see NodeProblem. */
export interface OverruledProblem {
  readonly severity: 'error' | 'warning';
  readonly text: string;
  readonly remedy: string;
}

/** Returns the path to each pod of the node, and one for each route of the agent to other nodes. */
export async function listWantedPaths(host: PathPorts): Promise<readonly WantedPath[]> {
  const pods = (await host.listPodLinks()).flatMap(({ name, addresses }) =>
    addresses.map((address): WantedPath => ({
      address,
      destination: hostCidr(address),
      device: name,
      gateway: undefined,
    })),
  );
  const routes = (await host.listRoutes()).flatMap(({ destination, hop }): WantedPath[] => {
    if (hop.kind !== 'gateway') return [];
    return [{ address: destination.base, destination, device: hop.device, gateway: hop.gateway }];
  });
  // Another node, or a pod of this one, may have borrowed the first address of a block: that has a route of its own.
  const isSingle = ({ address, destination }: WantedPath): boolean => destination.prefixBits === bitsOf(address.family);
  const singles = new Set([...pods, ...routes.filter(isSingle)].map(({ address }) => addressKey(address)));
  const ofPods = new Set(pods.map(({ address }) => addressKey(address)));
  return [
    ...pods,
    ...routes.filter((path) => isSingle(path) && !ofPods.has(addressKey(path.address))),
    ...routes.filter((path) => !isSingle(path) && !singles.has(addressKey(path.address))),
  ];
}

/** Returns the problems of the addresses that netplug's routes lead to; those of no route have none. */
export async function explainPaths(
  host: PathPorts,
  addresses: readonly Address[],
): Promise<readonly OverruledProblem[]> {
  const wanted = await listWantedPaths(host);
  const asked = addresses.flatMap((address) => pathTo(wanted, address) ?? []);
  if (asked.length === 0) return [];
  const others = firstPods(wanted).filter((pod) => !asked.some(({ address }) => sameAddress(address, pod.address)));
  const found = await host.findOverruled([...others, ...asked]);
  return overruledProblems(found.filter(({ path }) => asked.includes(path)));
}

/** Returns a pod of each family, whose packets the look-ups can ask about. */
export function firstPods(paths: readonly WantedPath[]): readonly WantedPath[] {
  const pods = paths.filter(({ gateway }) => gateway === undefined);
  return ([4, 6] as const).flatMap((family) => pods.find(({ address }) => address.family === family) ?? []);
}

function pathTo(paths: readonly WantedPath[], address: Address): WantedPath | undefined {
  const [best] = paths
    .filter(({ destination }) => cidrContains(destination, address))
    .toSorted((a, b) => b.destination.prefixBits - a.destination.prefixBits);
  return best === undefined ? undefined : { ...best, address };
}

/** Describes the paths that packets do not take, a problem for each cause. */
export function overruledProblems(overruled: readonly OverruledPath[]): readonly OverruledProblem[] {
  const byCause = Map.groupBy(overruled, ({ path, by }) => causeOf(path, by));
  return [...byCause.values()].flatMap(([first, ...others]) =>
    first === undefined ? [] : problemOf(first, others.length),
  );
}

/** What a rule does to addresses of both kinds is one cause, and so is what one device gets. */
function causeOf({ address, device }: WantedPath, by: Overruling): string {
  const way = by.rule === undefined ? `${device} ${formatGateway(by)}` : String(by.rule);
  return JSON.stringify([address.family, way, by.table, by.type, by.device]);
}

function formatGateway({ gateway }: Overruling): string {
  return gateway === undefined ? '' : formatAddress(gateway);
}

function problemOf({ path, by }: OverruledPath, more: number): OverruledProblem {
  const { address, device, gateway } = path;
  const whose = gateway === undefined ? 'a pod of this node' : 'of another node';
  const also = more === 0 ? '' : ` and ${counted(more, 'more address', 'more addresses')}`;
  const outcome =
    by.type === 'unicast'
      ? `leave by ${by.device === undefined ? 'another device' : `"${by.device}"`}${viaOf(by)}`
      : `are refused (${by.type})`;
  const isSameDevice = by.type === 'unicast' && by.device === device;
  const text = `packets to ${formatAddress(address)} (${whose})${also} ${outcome} in place of "${device}"${gateway === undefined ? '' : ` via ${formatAddress(gateway)}`}: ${causeText(by)}`;
  // Another gateway of the same network may reach the pods as well.
  return { severity: isSameDevice ? 'warning' : 'error', text, remedy: remedyOf(path, by) };
}

function causeText(by: Overruling): string {
  if (by.type === REVERSE_PATH)
    return `routing rule ${String(by.rule)} leads packets of the other direction by table ${String(by.table)}`;
  if (by.destination === undefined) return `routing rule ${String(by.rule)} refuses them`;
  const kind = by.type === 'unicast' ? 'route' : `${by.type} route`;
  const metric = by.metric === undefined ? '' : ` with metric ${String(by.metric)}`;
  const route = `${kind} ${formatCidr(by.destination)}${metric}`;
  if (by.rule !== undefined)
    return `routing rule ${String(by.rule)} chooses table ${String(by.table)} before the main table, and there ${route}`;
  return by.table === MAIN_TABLE
    ? `${route} of another program goes before that of netplug`
    : `the host itself has the address (table ${String(by.table)})`;
}

function viaOf(by: Overruling): string {
  return by.gateway === undefined ? '' : ` via ${formatAddress(by.gateway)}`;
}

function remedyOf({ address }: WantedPath, by: Overruling): string {
  const ip = address.family === 4 ? 'ip' : 'ip -6';
  if (by.rule !== undefined) {
    const before = by.rule > 1 ? ` pref ${String(by.rule - 1)}` : '';
    return `Make the program that added the rule leave out the ranges of the IP pools, or look there in the main table first, for each range: ${ip} rule add${before} to RANGE lookup main`;
  }
  if (by.table !== MAIN_TABLE || by.destination === undefined)
    return 'Remove the address from the host, or exclude it with an IPReservation and recreate the pod';
  const command = [
    `${ip} route delete`,
    ...(by.type === 'unicast' ? [] : [by.type]),
    formatCidr(by.destination),
    ...(by.gateway === undefined ? [] : ['via', formatAddress(by.gateway)]),
    // Other names cannot stand in a command as they are.
    ...(by.device !== undefined && /^[\w.-]+$/.test(by.device) ? ['dev', by.device] : []),
    ...(by.metric === undefined ? [] : ['metric', String(by.metric)]),
  ];
  return `Find the program that made the route, and make it leave out the ranges of the IP pools; if nothing needs the route any more, remove it: ${command.join(' ')}`;
}
