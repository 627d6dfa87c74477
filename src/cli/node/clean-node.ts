import { isNetplugError, NetplugError } from '../../base/errors.ts';
import type { HostNetwork } from '../../dataplane/host-network.ts';
import type { PacketFilter } from '../../dataplane/packet-filter.ts';
import { readShownCalls } from '../../model/shown-call.ts';
import { formatCidr } from '../../net/cidr.ts';
import { PACKET_TABLES } from '../../routing/packet-tables.ts';
import { TUNNEL_KINDS, TUNNELS } from '../../routing/tunnels.ts';
import { askAgentOfNode } from './ask-agent-of-node.ts';
import type { Context, Status } from '../ports.ts';
import { counted } from '../table.ts';

/**
 * Takes away what the agent left on this host for traffic between nodes. Status 1 when the kernel keeps some of it.
 * @throws resource/in-use while the agent runs, kernel/failed
 */
export async function cleanNode(
  context: Context,
  { socket }: { readonly socket: string | undefined },
): Promise<Status> {
  const { ports, io } = context;
  await assertNoAgent(context, socket);
  const host = ports.openHostNetwork();
  const routes = await removeRoutes(context, host);
  const tunnels = await removeTunnels(host);
  const tables = await removeTables(context, ports.openPacketFilter());
  const hadBird = await ports.stopBird(context.signal);
  const removed = [
    routes.removed === 0 ? [] : counted(routes.removed, 'route'),
    tunnels.map((device) => `tunnel device ${device}`),
    tables.map((name) => `nftables table inet ${name}`),
    hadBird ? 'BIRD with its routes' : [],
  ].flat();
  io.stdout(removed.length === 0 ? 'nothing of netplug-agent was found\n' : `removed ${removed.join(', ')}\n`);
  return routes.left === 0 ? 0 : 1;
}

/** The agent would make everything again at once. */
async function assertNoAgent(context: Context, socket: string | undefined): Promise<void> {
  try {
    await askAgentOfNode(context, { socket, question: { kind: 'show-calls', text: '{"last":1}' } }, readShownCalls);
  } catch (cause) {
    if (isNetplugError(cause, 'agent/unreachable')) return;
    if (!isNetplugError(cause, 'agent/protocol')) throw cause;
  }
  throw new NetplugError('resource/in-use', 'Cannot clean this node: netplug-agent runs on it', {
    hint: 'Stop netplug-agent first',
  });
}

async function removeRoutes(
  { io, signal }: Pick<Context, 'io' | 'signal'>,
  host: HostNetwork,
): Promise<{ readonly removed: number; readonly left: number }> {
  const routes = await host.listRoutes();
  const refused = await host.change(
    routes.map((route) => ({ kind: 'delete-route', route })),
    signal,
  );
  for (const { change, reason } of refused) {
    if (change.kind === 'delete-route')
      io.stderr(`warning: route to ${formatCidr(change.route.destination)} is left: ${reason}\n`);
  }
  return { removed: routes.length - refused.length, left: refused.length };
}

/** Those that were there. */
async function removeTunnels(host: HostNetwork): Promise<readonly string[]> {
  const removed: string[] = [];
  for (const { device } of TUNNEL_KINDS.map((kind) => TUNNELS[kind])) {
    if (await host.removeTunnel(device)) removed.push(device);
  }
  return removed;
}

/** Those that were there. Without the program `nft` the agent cannot have made one. */
async function removeTables({ signal }: Pick<Context, 'signal'>, filter: PacketFilter): Promise<readonly string[]> {
  const removed: string[] = [];
  try {
    for (const name of PACKET_TABLES)
      if ((await filter.replace({ name, objects: [] }, signal)) === 'changed') removed.push(name);
  } catch (cause) {
    if (!isNetplugError(cause, 'kernel/nft-missing')) throw cause;
  }
  return removed;
}
