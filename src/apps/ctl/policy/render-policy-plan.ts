import type { PeerGroup } from '../../../policy/reach/group-peers.ts';
import type { CutFlow } from './cut-flows.ts';
import type { PlannedConnections, PolicyPlan } from './explain-plan.ts';

const ACTIONS = { create: 'created', change: 'changed', delete: 'deleted', none: 'unchanged' } as const;
/** Entries shown of each list of the text; JSON has all. */
const SHOWN = { ends: 8, connections: 40 };

/** Renders warnings, what is cut, and what is opened. */
export function renderPolicyPlan({ changes, warnings, cutFlows, cut, opened, notes }: PolicyPlan): string {
  const lines = [
    ...changes.map(({ resource, action }) => `${resource}: ${ACTIONS[action]}`),
    ...warnings.map((warning) => `warning: ${warning}`),
    ...(cutFlows === undefined ? [] : seenSection(cutFlows)),
    ...section('cut', cut),
    ...section('opened', opened),
    ...(cut.length === 0 && opened.length === 0 ? ['', 'No connection between present ends is cut or opened.'] : []),
    ...(notes.length === 0 ? [] : ['', ...notes.map((note) => `note: ${note}`)]),
  ];
  return lines.map((line) => `${line}\n`).join('');
}

function seenSection(flows: readonly CutFlow[]): readonly string[] {
  if (flows.length === 0) return ['', 'No connection that was seen is cut.'];
  return ['', 'seen, and cut', ...limited(flows, flowLines)];
}

function flowLines({ from, to, traffic, count, lastSeen }: CutFlow): readonly string[] {
  return [`  ${String(count)}x ${from} -> ${to}, ${traffic}, last at ${lastSeen}`];
}

function section(title: string, connections: readonly PlannedConnections[]): readonly string[] {
  return connections.length === 0 ? [] : ['', title, ...limited(connections, connectionLines)];
}

/** Returns the lines of the first of them, and how many more there are. */
function limited<T>(all: readonly T[], linesOf: (one: T) => readonly string[]): readonly string[] {
  const more = all.length - SHOWN.connections;
  return [
    ...all.slice(0, SHOWN.connections).flatMap(linesOf),
    ...(more > 0 ? [`  ${String(more)} more: use -o json`] : []),
  ];
}

function connectionLines({ from, to, traffic, family, reasons }: PlannedConnections): readonly string[] {
  return [
    `  ${traffic}${family === undefined ? '' : `, IPv${String(family)} only`}`,
    `    from ${listed(from)}`,
    `    to   ${listed(to)}`,
    ...reasons.flatMap(({ direction, before, after }) => [
      `    ${direction} before: ${before}`,
      `    ${direction} after:  ${after}`,
    ]),
  ];
}

function listed(groups: readonly PeerGroup[]): string {
  const texts = groups.slice(0, SHOWN.ends).map(({ text }) => text);
  const more = groups.length - texts.length;
  return [...texts, ...(more > 0 ? [`${String(more)} more`] : [])].join(', ');
}
