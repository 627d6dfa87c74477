// Netplug's routes are in the main table. The kernel tries routing rules before it, and within it the longest prefix and then the
// least metric, so routes that exist may decide nothing. Only a look-up tells.
import { slicesOf } from '../../base/slices.ts';
import { type Address, bitsOf, type Family, sameAddress } from '../../net/address.ts';
import { cidrContains } from '../../net/cidr.ts';
import { ROUTE_METRIC, ROUTE_PROTOCOL } from '../host-network.ts';
import { HOST_LINK_PREFIX } from '../kernel.ts';
import { type OverruledPath, type Overruling, REVERSE_PATH, type WantedPath } from '../overruled-paths.ts';
import { decodeLink, listLinks } from './link-messages.ts';
import type { Message, Reply } from './netlink.ts';
import {
  REFUSING_TYPES,
  RT_TABLE_LOCAL,
  RT_TABLE_MAIN,
  RTPROT_BIRD,
  type Route,
  decodeRoute,
  dumpRoutes,
  hopDevices,
  lookUpEntry,
} from './route-messages.ts';
import type { RouteSocket } from './route-socket.ts';
import { type RoutingRule, decodeRoutingRule, dumpRoutingRules } from './rule-messages.ts';

/** EXDEV, or EINVAL since Linux 6.13: the answer about a packet that reverse path filtering drops. */
const FILTERED: ReadonlySet<number> = new Set([18, 22]);
/** All replies of an exchange must fit into the receive buffer of the socket. */
const ASKED_AT_ONCE = 64;

const REFUSES: ReadonlySet<string> = new Set(['blackhole', 'unreachable', 'prohibit']);

const NO_ROUTE = {
  table: undefined,
  destination: undefined,
  device: undefined,
  gateway: undefined,
  metric: undefined,
} as const;

/** The packet of a question. */
interface Sender {
  readonly source: Address;
  readonly device: string;
  readonly deviceIndex: number;
}

/** What the kernel has besides the answer; read when a first answer requires it. */
interface Tables {
  readonly rules: readonly RoutingRule[];
  /** Routes that refuse packets, of all tables. */
  readonly refusing: readonly Route[];
}

interface Links {
  readonly names: ReadonlyMap<number, string>;
  readonly indexes: ReadonlyMap<string, number>;
}

/** See HostNetwork.findOverruled. */
export async function findOverruled(
  socket: RouteSocket,
  paths: readonly WantedPath[],
): Promise<readonly OverruledPath[]> {
  if (paths.length === 0) return [];
  const links = await readLinks(socket);
  const read = new Map<Family, Promise<Tables>>();
  const tablesOf = async (family: Family): Promise<Tables> => {
    const tables = read.get(family) ?? readTables(socket, family);
    read.set(family, tables);
    return tables;
  };
  const taken = new Set<WantedPath>();
  const look = async (
    asked: readonly WantedPath[],
    senderOf: (path: WantedPath) => Sender | undefined,
  ): Promise<readonly OverruledPath[]> => {
    const questions = asked.map((path) => lookUpEntry(path.address, senderOf(path)));
    const replies = await askAll(socket, questions);
    const found: OverruledPath[] = [];
    for (const [index, path] of asked.entries()) {
      const reply = replies[index];
      if (reply === undefined) continue;
      if (isTaken(path, reply, links)) {
        taken.add(path);
        continue;
      }
      const by = judge(path, { reply, sender: senderOf(path), links, tables: await tablesOf(path.address.family) });
      if (by !== undefined) found.push({ path, by });
    }
    return found;
  };
  const ofHost = await look(paths, () => undefined);
  // A packet whose source is not routed back to its link is refused, so the sender is a pod that the host reaches.
  const senders = sendersAmong([...taken], links);
  const forwarded = [...taken].filter(({ address }) => {
    const sender = senders.get(address.family);
    return sender !== undefined && !sameAddress(sender.source, address);
  });
  return [...ofHost, ...(await look(forwarded, ({ address }) => senders.get(address.family)))];
}

/** Returns the first pod of each family. */
function sendersAmong(paths: readonly WantedPath[], { indexes }: Links): ReadonlyMap<Family, Sender> {
  const senders = new Map<Family, Sender>();
  for (const { address: source, device, gateway } of paths) {
    const deviceIndex = indexes.get(device);
    if (gateway === undefined && deviceIndex !== undefined && !senders.has(source.family))
      senders.set(source.family, { source, device, deviceIndex });
  }
  return senders;
}

/** Reports whether the answer is the route of netplug, or another one of the same hop. */
function isTaken(
  { device, gateway }: WantedPath,
  { errno, bodies: [body] }: Reply,
  { names, indexes }: Links,
): boolean {
  if (errno !== 0 || body === undefined) return false;
  const route = decodeRoute(body);
  const isByDevice = hopDevices(body).some((index) => index === indexes.get(device));
  if (gateway === undefined) return route.type === 'unicast' && isByDevice;
  // Addresses of another node's block that a tunnel, or a pod, of this node has borrowed.
  if (route.type === 'local' || hopDevices(body).some((index) => isPodLink(names.get(index)))) return true;
  if (route.table === RT_TABLE_MAIN && isOwnProtocol(route)) return true;
  return isByDevice && route.gateway !== undefined && sameAddress(route.gateway, gateway);
}

/** Netplug's BIRD writes with a metric above that of the agent. */
function isOwnProtocol({ protocol, priority = 0 }: Route): boolean {
  return protocol === ROUTE_PROTOCOL || (protocol === RTPROT_BIRD && priority > ROUTE_METRIC);
}

interface Evidence {
  readonly reply: Reply;
  readonly sender: Sender | undefined;
  readonly links: Links;
  readonly tables: Tables;
}

/** Returns what goes before the path; undefined when the evidence does not show it. */
function judge(path: WantedPath, { reply, sender, links, tables }: Evidence): Overruling | undefined {
  const matching = tables.rules.filter((rule) => matches(rule, path.address, sender));
  const mainAt = matching.findIndex(({ action }) => looksIn(action, RT_TABLE_MAIN));
  const before = mainAt === -1 ? matching : matching.slice(0, mainAt);
  const [body] = reply.bodies;
  if (reply.errno !== 0 || body === undefined) {
    const refusal = refusalBy(path, before, tables.refusing);
    const isFiltered = refusal === undefined && sender !== undefined && FILTERED.has(reply.errno);
    return isFiltered ? reversePathBy(path, sender, tables.rules) : refusal;
  }
  const route = decodeRoute(body);
  // Local entries are named as of the main table while the kernel keeps both in one.
  if (route.type === 'local') return { ...overruling(undefined, route, links), table: RT_TABLE_LOCAL };
  if (route.table === RT_TABLE_MAIN) return isBefore(route, path) ? overruling(undefined, route, links) : undefined;
  const rule = before.find(({ action }) => looksIn(action, route.table));
  // Without such a rule the route of netplug is missing, or a VRF has the link.
  return rule === undefined || isOfOnePod(rule, path) ? undefined : overruling(rule.preference, route, links);
}

/** Finds the rule, or the route of another program, that makes the kernel refuse packets. */
function refusalBy(
  path: WantedPath,
  before: readonly RoutingRule[],
  refusing: readonly Route[],
): Overruling | undefined {
  const covering = refusing.filter(({ destination }) => cidrContains(destination, path.address));
  for (const rule of before.filter((each) => !looksIn(each.action, RT_TABLE_LOCAL))) {
    const { action, preference } = rule;
    if (action === undefined || isOfOnePod(rule, path)) continue;
    if ('refuses' in action) return { ...NO_ROUTE, rule: preference, type: action.refuses };
    const route = longest(covering.filter(({ table }) => table === action.table));
    if (route !== undefined) return overruling(preference, route);
  }
  const inMain = longest(covering.filter((route) => route.table === RT_TABLE_MAIN && !isOwnProtocol(route)));
  return inMain !== undefined && isBefore(inMain, path) ? overruling(undefined, inMain) : undefined;
}

/**
 * Finds the rule by which packets to the sender would leave by another link, so that its own are dropped. The host reaches the sender,
 * so only a rule that asks for the source can be the cause.
 */
function reversePathBy(path: WantedPath, sender: Sender, rules: readonly RoutingRule[]): Overruling | undefined {
  const back = { source: path.address, device: 'lo', deviceIndex: 0 };
  const rule = rules.find((each) => each.from !== undefined && matches(each, sender.source, back));
  if (rule?.action === undefined || !('table' in rule.action) || isOfOnePod(rule, path)) return undefined;
  return { ...NO_ROUTE, rule: rule.preference, table: rule.action.table, type: REVERSE_PATH };
}

/** A route of a shorter prefix applies only where that of netplug is missing, which is found and repaired elsewhere. */
function isBefore({ destination }: Route, path: WantedPath): boolean {
  return destination.prefixBits >= path.destination.prefixBits;
}

function overruling(rule: number | undefined, route: Route, links?: Links): Overruling {
  const { table, type, destination, deviceIndex, gateway, priority: metric } = route;
  const device = deviceIndex === undefined ? undefined : links?.names.get(deviceIndex);
  return { rule, table, type, destination, device, gateway, metric };
}

function longest(routes: readonly Route[]): Route | undefined {
  return routes.toSorted((a, b) => b.destination.prefixBits - a.destination.prefixBits)[0];
}

function matches(rule: RoutingRule, address: Address, sender: Sender | undefined): boolean {
  if (rule.isNarrow || rule.isOfVrf) return false;
  const isMatch =
    rule.takesUnmarked &&
    (rule.to === undefined || cidrContains(rule.to, address)) &&
    (rule.from === undefined || (sender !== undefined && cidrContains(rule.from, sender.source))) &&
    (rule.incoming === undefined || rule.incoming === (sender?.device ?? 'lo'));
  return isMatch !== rule.isInverted;
}

/** Reports whether the rule is for one pod, as chained plugins make them, or for one address of another node. */
function isOfOnePod({ from, to, incoming, isInverted }: RoutingRule, { address }: WantedPath): boolean {
  if (isInverted) return false;
  const bits = bitsOf(address.family);
  return from?.prefixBits === bits || to?.prefixBits === bits || isPodLink(incoming);
}

function looksIn(action: RoutingRule['action'], table: number): boolean {
  return action !== undefined && 'table' in action && action.table === table;
}

function isPodLink(name: string | undefined): boolean {
  return name?.startsWith(HOST_LINK_PREFIX) === true;
}

async function readLinks(socket: RouteSocket): Promise<Links> {
  const links = (await socket.listOnWorker('list the interfaces of the host', listLinks())).map(decodeLink);
  return {
    names: new Map(links.map(({ index, name }) => [index, name])),
    indexes: new Map(links.map(({ index, name }) => [name, index])),
  };
}

async function readTables(socket: RouteSocket, family: Family): Promise<Tables> {
  const rules = await socket.listOnWorker('list the routing rules of the host', dumpRoutingRules(family));
  const refusing: Route[] = [];
  for (const type of REFUSING_TYPES) {
    const routes = await socket.listOnWorker('list the routes of the host', dumpRoutes(family, { type }));
    // Older kernels do not filter.
    refusing.push(...routes.map(decodeRoute).filter((route) => REFUSES.has(route.type)));
  }
  return { rules: rules.map(decodeRoutingRule), refusing };
}

async function askAll(socket: RouteSocket, messages: readonly Message[]): Promise<readonly Reply[]> {
  const replies: Reply[] = [];
  for (const [first, ...rest] of slicesOf(messages, ASKED_AT_ONCE))
    if (first !== undefined) replies.push(...(await socket.askOnWorker([first, ...rest])));
  return replies;
}
