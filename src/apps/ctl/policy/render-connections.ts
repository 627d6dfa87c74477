import type { ExplainedConnection, ExplainedConnections, ExplainedEnd } from './explain-connection.ts';

const VERDICTS = { allow: 'allowed', deny: 'denied' } as const;

/** Renders verdict, what decides at each end, and what else was considered. */
export function renderConnections(explained: ExplainedConnections): string {
  const { from, to, protocol, port, verdict, connections, notes } = explained;
  const what = port === undefined ? protocol : `${protocol} port ${String(port)}`;
  const lines = [
    `${from} -> ${to}, ${what}: ${VERDICTS[verdict]}`,
    ...connections.flatMap((connection) => ['', ...connectionLines(connection)]),
    ...(notes.length === 0 ? [] : ['', ...notes.map((note) => `note: ${note}`)]),
  ];
  return lines.map((line) => `${line}\n`).join('');
}

function connectionLines({
  source,
  destination,
  verdict,
  egress,
  ingress,
  notes,
}: ExplainedConnection): readonly string[] {
  return [
    `${source} -> ${destination}: ${VERDICTS[verdict]}`,
    ...(egress === undefined ? [] : endLines('egress', egress)),
    ...(ingress === undefined ? [] : endLines('ingress', ingress)),
    ...notes.map((note) => `  ${note}`),
  ];
}

function endLines(
  direction: 'egress' | 'ingress',
  { pod, node, verdict, reason, considered }: ExplainedEnd,
): readonly string[] {
  return [
    `  ${direction} of ${pod} on node ${node}: ${VERDICTS[verdict]}`,
    `    ${reason}`,
    ...(considered.length === 0 ? ['    no policy applies'] : ['    considered, in order']),
    ...considered.map(({ policy, isStaged, rule, logs }) => {
      const said = rule === undefined ? 'no rule matches' : `${rule.place}: ${rule.text}`;
      const logged = logs.length === 0 ? '' : `, logged by ${logs.join(' and ')}`;
      return `      ${policy}${isStaged ? ' (staged, not enforced)' : ''}: ${said}${logged}`;
    }),
  ];
}
