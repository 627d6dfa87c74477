import { never } from '../../../base/errors.ts';
import type { PacketPath } from '../../../policy/packet-path.ts';
import type {
  ExplainedConnection,
  ExplainedConnections,
  ExplainedCrossing,
  ExplainedEnd,
} from './explain-connection.ts';
import type { ExplainedProbe } from './probe-connection.ts';

const VERDICTS = { allow: 'allowed', deny: 'denied' } as const;
/** Connections of each verdict that the text shows of many; JSON has all. */
const SHOWN = 5;

/** Renders verdict, what decides at each end, and what else was considered. */
export function renderConnections(explained: ExplainedConnections): string {
  const { from, to, protocol, port, request, verdict, connections, notes } = explained;
  const where = port === undefined ? protocol : `${protocol} port ${String(port)}`;
  const what = request === undefined ? where : `${request.method} ${request.path} at ${where}`;
  const lines = [
    `${from} -> ${to}, ${what}: ${verdictText(verdict, connections)}`,
    ...shownOf(connections).flatMap((connection) => ['', ...connectionLines(connection)]),
    ...hiddenLines(connections),
    ...(notes.length === 0 ? [] : ['', ...notes.map((note) => `note: ${note}`)]),
  ];
  return lines.map((line) => `${line}\n`).join('');
}

function verdictText(
  verdict: ExplainedConnections['verdict'],
  connections: ExplainedConnections['connections'],
): string {
  switch (verdict) {
    case 'allow':
    case 'deny':
      return VERDICTS[verdict];
    case 'some':
      return `allowed to ${String(countOf(connections, 'allow'))} of ${String(connections.length)} backends`;
    case 'none':
      return 'no backend is reached';
    default:
      return never(verdict);
  }
}

function countOf(connections: ExplainedConnections['connections'], verdict: ExplainedConnection['verdict']): number {
  return connections.filter((each) => each.verdict === verdict).length;
}

/** What is denied comes first. */
function shownOf(connections: ExplainedConnections['connections']): ExplainedConnections['connections'] {
  if (connections.length <= 2 * SHOWN) return connections;
  return (['deny', 'allow'] as const).flatMap((verdict) =>
    connections.filter((each) => each.verdict === verdict).slice(0, SHOWN),
  );
}

function hiddenLines(connections: ExplainedConnections['connections']): readonly string[] {
  if (connections.length <= 2 * SHOWN) return [];
  const lines = (['deny', 'allow'] as const).flatMap((verdict) => {
    const more = countOf(connections, verdict) - SHOWN;
    return more > 0 ? [`${String(more)} more backends: ${VERDICTS[verdict]} (-o json lists them)`] : [];
  });
  return ['', ...lines];
}

function connectionLines({
  source,
  destination,
  verdict,
  egress,
  ingress,
  leaving,
  entering,
  probe,
  notes,
}: ExplainedConnection): readonly string[] {
  return [
    `${source} -> ${destination}: ${VERDICTS[verdict]}`,
    ...(egress === undefined ? [] : endLines('egress', egress)),
    ...(leaving === undefined ? [] : crossingLines('egress', leaving)),
    ...(entering === undefined ? [] : crossingLines('ingress', entering)),
    ...(ingress === undefined ? [] : endLines('ingress', ingress)),
    ...notes.map((note) => `  ${note}`),
    ...(probe === undefined ? [] : probeLines(probe)),
  ];
}

const OUTCOMES = {
  agrees: 'the kernel agrees',
  differs: 'the kernel differs',
  unknown: 'policies were not evaluated',
} as const;

function probeLines({ node, outcome, places, notes }: ExplainedProbe): readonly string[] {
  return [
    `  probe on node ${node}: ${OUTCOMES[outcome]}`,
    ...places.flatMap(({ place, outcome: found, expected, kernel }) => [
      `    ${place}: ${found}`,
      ...(expected === undefined ? [] : [`      policies: ${VERDICTS[expected.verdict]}, ${expected.reason}`]),
      ...(kernel === undefined ? [] : [`      kernel:   ${VERDICTS[kernel.verdict]}, ${kernel.reason}`]),
    ]),
    ...notes.map((note) => `    ${note}`),
  ];
}

function endLines(direction: 'egress' | 'ingress', end: ExplainedEnd): readonly string[] {
  return [`  ${direction} of ${end.pod} on node ${end.node}: ${VERDICTS[end.verdict]}`, ...reasonLines(end)];
}

export const PATH_TEXTS: Readonly<Record<PacketPath, string>> = {
  untracked: 'doNotTrack',
  preDNAT: 'preDNAT',
  local: 'process of the node',
  forwarded: 'forwarded',
};

function crossingLines(
  direction: 'egress' | 'ingress',
  { hostEndpoint, node, paths }: ExplainedCrossing,
): readonly string[] {
  return paths.flatMap(({ path, ...decision }) => [
    `  ${direction} at HostEndpoint ${hostEndpoint} of node ${node}, ${PATH_TEXTS[path]}: ${VERDICTS[decision.verdict]}`,
    ...reasonLines(decision),
  ]);
}

function reasonLines({ reason, considered }: Pick<ExplainedEnd, 'reason' | 'considered'>): readonly string[] {
  return [
    `    ${reason}`,
    ...(considered.length === 0 ? ['    no policy applies'] : ['    considered, in order']),
    ...considered.map(({ policy, isStaged, rule, aboutOtherRequests: other, logs }) => {
      const none = `no rule matches${other === undefined ? '' : `; ${other.place} is about other requests: ${other.text}`}`;
      const text = rule === undefined ? none : `${rule.place}: ${rule.text}`;
      const logged = logs.length === 0 ? '' : `, logged by ${logs.join(' and ')}`;
      return `      ${policy}${isStaged ? ' (staged, not enforced)' : ''}: ${text}${logged}`;
    }),
  ];
}
