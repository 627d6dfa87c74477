import type { ShownNetwork } from '../../../model/shown-network.ts';
import type { ReportedNodeProblem } from '../../../model/node-report.ts';
import { visibleText } from '../../../base/visible-text.ts';
import { type Paint, painterFor, type Screen } from '../screen.ts';
import { counted } from '../../../base/counted.ts';
import { renderTable } from '../table.ts';

/** Renders the network of a node as text, problems last, where they stay in sight. */
export function renderNetwork(network: ShownNetwork, screen: Screen): string {
  const paint = painterFor(screen);
  const { node, nodes, addresses, tunnels, pools } = network;
  return [
    `${paint('bold', `node ${visibleText(node)}`)}, ${counted(nodes, 'node')} in all\n`,
    table(
      ['ADDRESS', 'DEVICE'],
      addresses.map(({ address, device }) => [address, device]),
    ),
    table(
      ['TUNNEL', 'ADDRESS'],
      tunnels.map(({ device, address }) => [device, address ?? '(none yet)']),
    ),
    table(
      ['POOL', 'CIDR', 'MODE'],
      pools.map(({ name, cidr, mode }) => [name, cidr, mode]),
    ),
    routesLine(network),
    sessions(network),
    sidecars(network),
    fanOutLine(network),
    problems(network, paint),
  ]
    .filter((part) => part !== '')
    .join('\n');
}

function routesLine({ routes }: ShownNetwork): string {
  const { blackhole, direct, tunnelled } = routes;
  const kinds = `${String(tunnelled)} through tunnels, ${String(direct)} direct, ${String(blackhole)} blackhole`;
  return `routes of netplug: ${kinds}\n`;
}

function sessions({ bgp, peers, pools }: ShownNetwork): string {
  if (bgp === undefined) {
    const isNeeded = pools.some(({ mode }) => mode === 'BGP');
    return isNeeded
      ? `BGP: ${counted(peers, 'peer')} configured, but BIRD does not report its sessions\n`
      : 'BGP: BIRD is not needed: no pool is in BGP mode\n';
  }
  if (bgp.length === 0) return 'BGP: BIRD runs without a peer\n';
  const hasBfd = bgp.some(({ bfd }) => bfd !== undefined);
  return table(
    ['PEER ADDRESS', 'PEER TYPE', 'STATE', ...(hasBfd ? ['BFD'] : []), 'SINCE', 'INFO'],
    bgp.map(({ peer, kind, state, bfd = '', since, info }) => [
      peer,
      kind,
      state,
      ...(hasBfd ? [bfd] : []),
      since,
      info,
    ]),
  );
}

function sidecars({ sidecars: all = [] }: ShownNetwork): string {
  if (all.length === 0) return '';
  return table(
    ['SIDECAR OF', 'RELEASE', 'STATE', 'PORTS', 'SINCE', 'PROXY'],
    all.map(({ pod, release, state, ports, since, proxy }) => [pod, release, state, ports.join(','), since, proxy]),
  );
}

function fanOutLine({ fanOut }: ShownNetwork): string {
  if (fanOut === undefined) return '';
  const { server, since, heardSecondsAgo = 0, moves, lastError } = fanOut;
  if (server === undefined)
    return `netplug-typha: no server serves this node: ${visibleText(lastError ?? 'none was found')}\n`;
  const heard = `heard ${String(heardSecondsAgo)} s ago, ${counted(moves, 'move')}`;
  return `netplug-typha: ${visibleText(server)} since ${visibleText(since ?? '')}, ${heard}\n`;
}

function problems({ problems: all }: ShownNetwork, paint: Paint): string {
  if (all.length === 0) return '';
  return `${paint('bold', paint('red', `${counted(all.length, 'problem')}:`))}\n${renderProblems(all, paint)}`;
}

/** Renders problems of a node, a line each, and one for what to do. */
export function renderProblems(all: readonly ReportedNodeProblem[], paint: Paint): string {
  return all
    .flatMap(({ severity, code, text, remedy, since }) => [
      paint(severity === 'error' ? 'red' : 'yellow', `  ${severity} ${visibleText(`${code}: ${text}`)}`),
      ...(remedy === undefined ? [] : [`    remedy: ${visibleText(remedy)}`]),
      paint('dim', `    since ${visibleText(since)}`),
    ])
    .map((line) => `${line}\n`)
    .join('');
}

/** Renders a table; empty without rows. */
function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  return rows.length === 0
    ? ''
    : renderTable(
        titles,
        rows.map((row) => row.map(visibleText)),
      );
}
