import { counted } from '../../../base/counted.ts';
import { NetplugError } from '../../../base/errors.ts';
import { visibleText } from '../../../base/visible-text.ts';
import { listServers } from '../../../install/cluster/server-leases.ts';
import { readNodes } from '../../../kube/status/node-state.ts';
import { isCurrentServer, type LeasedServer } from '../../../stream/server-lease.ts';
import { readClusterConnection } from '../cluster/cluster-access.ts';
import type { Output } from '../common-options.ts';
import type { Context, Status } from '../ports.ts';
import { renderDocument } from '../render-document.ts';
import { renderTable } from '../table.ts';

/** Shows the servers of netplug-typha. Returns 1 when none renews its Lease. @throws typha/none when no server has a Lease */
export async function typhaStatus(context: Context, { output }: { readonly output: Output }): Promise<Status> {
  const { io, ports, signal } = context;
  const { api: access } = await readClusterConnection(context, undefined);
  await using api = ports.openApi(access);
  const servers = (await listServers(api, signal)).toSorted((a, b) => (a.entry.name < b.entry.name ? -1 : 1));
  if (servers.length === 0) throw noServers();
  const nodes = (await readNodes(api, signal)).length;
  const shown = servers.map((server) => shownServer(server, servers));
  io.stdout(renderDocument({ nodes, servers: shown }, output, render));
  return shown.some(({ state }) => state === 'serving') ? 0 : 1;
}

interface ShownServer {
  readonly name: string;
  readonly addresses: readonly string[];
  readonly release: string;
  readonly clients: number;
  /** The oldest release of an agent that it serves; null without agents. */
  readonly oldestAgent: string | null;
  readonly renewed: string;
  readonly state: 'serving' | 'leaving' | 'not renewed';
}

function shownServer(server: LeasedServer, all: readonly LeasedServer[]): ShownServer {
  const { entry, release, clients, oldestClient, renewedMs } = server;
  const isCurrent = isCurrentServer(server, all);
  return {
    name: entry.name,
    addresses: entry.addresses,
    release,
    clients,
    oldestAgent: oldestClient ?? null,
    renewed: new Date(renewedMs).toISOString(),
    state: entry.isLeaving ? 'leaving' : isCurrent ? 'serving' : 'not renewed',
  };
}

function render({ nodes, servers }: { readonly nodes: number; readonly servers: readonly ShownServer[] }): string {
  const rows = servers.map(({ name, addresses, release, clients, oldestAgent, renewed, state }) =>
    [name, addresses.join(', '), release, String(clients), oldestAgent ?? '', renewed, state].map(visibleText),
  );
  const serving = servers.filter(({ state }) => state !== 'not renewed').reduce((sum, { clients }) => sum + clients, 0);
  const table = renderTable(['SERVER', 'ADDRESSES', 'RELEASE', 'AGENTS', 'OLDEST AGENT', 'RENEWED', 'STATE'], rows);
  return `${table}\n${counted(serving, 'agent')} of ${counted(nodes, 'node')}\n`;
}

function noServers(): NetplugError {
  return new NetplugError('typha/none', 'Cannot show netplug-typha: no server has written a Lease', {
    hint: 'Run "netplugctl install status": spec.typha.mode of the Installation switches the fan-out on',
  });
}
