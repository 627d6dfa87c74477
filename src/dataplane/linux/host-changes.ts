import { never } from '../../base/errors.ts';
import type { HostChange, Refused } from '../host-network.ts';
import { listRows } from './host-tables.ts';
import type { Link } from './link-messages.ts';
import { findLinkOnWorker } from './links.ts';
import { deleteForwarding, deleteNeighbour, setForwarding, setPermanentNeighbour } from './neighbour-messages.ts';
import type { Message } from './netlink.ts';
import { deleteAgentRoute, deleteLearnedRoute, putAgentRoute } from './route-messages.ts';
import { type RouteSocket, verdictOf } from './route-socket.ts';

/** The number of acknowledgements that fit into a receive buffer of the smallest usual size. */
const MESSAGES_PER_EXCHANGE = 150;
/** ENOENT, ESRCH, ENODEV: what is to be deleted does not exist. */
const GONE: ReadonlySet<number> = new Set([2, 3, 19]);

type Links = ReadonlyMap<string, Link>;

/** One message of a change. */
interface Step {
  readonly change: HostChange;
  readonly message: Message;
}

/** See HostNetwork.change. */
export async function applyHostChanges(
  socket: RouteSocket,
  changes: readonly HostChange[],
  signal: AbortSignal,
): Promise<readonly Refused[]> {
  const links = await findDevices(socket, changes);
  const missing: Refused[] = [];
  const refused = await send(socket, stepsFor(changes, links, missing), signal);
  const left = await planForwardingDeletions(socket, changes, links);
  return [...missing, ...refused, ...(await send(socket, left, signal))];
}

/** Yields the messages lazily, so that thousands are not in memory at once. */
function* stepsFor(changes: readonly HostChange[], links: Links, missing: Refused[]): Generator<Step> {
  for (const change of changes) {
    const messages = messagesFor(change, links);
    if (messages === undefined) missing.push({ change, reason: `there is no interface "${deviceOf(change) ?? ''}"` });
    for (const message of messages ?? []) yield { change, message };
  }
}

async function send(socket: RouteSocket, steps: Iterable<Step>, signal: AbortSignal): Promise<readonly Refused[]> {
  const refused = new Map<HostChange, Refused>();
  for (const batch of batchesOf(steps)) {
    signal.throwIfAborted();
    const [first, ...rest] = batch.map(({ message }) => message);
    if (first === undefined) break;
    const replies = await socket.askOnWorker([first, ...rest]);
    for (const [index, { change }] of batch.entries()) {
      const reply = replies[index];
      if (reply === undefined || reply.errno === 0 || (isDeletion(change) && GONE.has(reply.errno))) continue;
      refused.set(change, { change, reason: verdictOf(reply) });
    }
  }
  return [...refused.values()];
}

function* batchesOf(steps: Iterable<Step>): Generator<readonly Step[]> {
  let batch: Step[] = [];
  for (const step of steps) {
    batch.push(step);
    if (batch.length < MESSAGES_PER_EXCHANGE) continue;
    yield batch;
    batch = [];
  }
  yield batch;
}

/** Returns the messages of a change; undefined when its device is missing, none when it deletes from a missing device. */
function messagesFor(change: HostChange, links: Links): readonly Message[] | undefined {
  const device = deviceOf(change);
  const index = device === undefined ? undefined : links.get(device)?.index;
  switch (change.kind) {
    case 'put-route': {
      const { destination, hop } = change.route;
      if (hop.kind === 'blackhole') return [putAgentRoute(destination, hop)];
      return index === undefined ? undefined : [putAgentRoute(destination, { ...hop, deviceIndex: index })];
    }
    case 'delete-route':
      return [deleteAgentRoute(change.route.destination)];
    case 'delete-learned-route':
      return [deleteLearnedRoute(change.destination, change.metric)];
    case 'put-peer': {
      const { gateway, mac, remote } = change.peer;
      if (index === undefined) return undefined;
      // In this order, so that no packet is sent to a MAC without a forwarding entry.
      return [setForwarding(index, { mac, address: remote }), setPermanentNeighbour(index, gateway, mac)];
    }
    case 'delete-peer':
      return index === undefined ? [] : [deleteNeighbour(index, change.peer.gateway)];
    default:
      return never(change);
  }
}

/** Returns the deletions of forwarding entries that no neighbour needs any more; gateways of both families may share a MAC. */
async function planForwardingDeletions(
  socket: RouteSocket,
  changes: readonly HostChange[],
  links: Links,
): Promise<readonly Step[]> {
  const steps: Step[] = [];
  const deletions = changes.filter((change) => change.kind === 'delete-peer');
  for (const [device, ofDevice] of Map.groupBy(deletions, ({ peer }) => peer.device)) {
    const link = links.get(device);
    if (link === undefined) continue;
    const needed = new Set((await listRows(socket, link, 'neighbours')).map(({ mac }) => mac));
    for (const change of ofDevice) {
      const { mac, remote } = change.peer;
      if (!needed.has(mac)) steps.push({ change, message: deleteForwarding(link.index, { mac, address: remote }) });
    }
  }
  return steps;
}

async function findDevices(socket: RouteSocket, changes: readonly HostChange[]): Promise<Links> {
  const links = new Map<string, Link>();
  for (const name of new Set(changes.map(deviceOf))) {
    const link = name === undefined ? undefined : await findLinkOnWorker(socket, name);
    if (link !== undefined) links.set(link.name, link);
  }
  return links;
}

/** Returns the name of the device that a change needs. */
function deviceOf(change: HostChange): string | undefined {
  if (change.kind === 'put-peer' || change.kind === 'delete-peer') return change.peer.device;
  if (change.kind === 'delete-route' || change.kind === 'delete-learned-route') return undefined;
  if (change.route.hop.kind === 'blackhole') return undefined;
  return change.route.hop.device;
}

function isDeletion({ kind }: HostChange): boolean {
  return kind !== 'put-route' && kind !== 'put-peer';
}
