import type { OrchApi } from '../../kube/orch-api.ts';
import { isUnknownKind } from '../../kube/answers.ts';
import { decodeStoredResource } from '../../model/decode-resource.ts';
import { boundedReport } from '../../model/bounded-report.ts';
import { isUncallable } from '../../model/node-readiness.ts';
import {
  type NodeReport,
  problemName,
  PROBLEMS_LABEL,
  REPORT_LIMITS,
  type ReportedNodeProblem,
} from '../../model/node-report.ts';
import type { NodeState } from '../../kube/status/node-state.ts';

export const NODE_REPORTS = { group: 'netplug.io', version: 'v3', plural: 'nodereports' } as const;
const WITH_PROBLEMS = { labelSelector: PROBLEMS_LABEL } as const;
/** What the operator follows. Warnings of many nodes, which a tenant may cause, and texts that change, are read with its next run. */
export const WITH_ERRORS = { labelSelector: `${PROBLEMS_LABEL}=error` } as const;

const SHOWN = 3;
const SHOWN_WARNINGS = 10;
/** Three times what an agent may wait before it writes its report again. */
const OUTDATED_MS = 30 * 60_000;

/** What agents report of their nodes, as an installation shows it. */
export interface ReportedNodes {
  /** Sentences that name the node; the first few, and how many more. */
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
  /** Those of the errors for which the runtime of a node cannot call the plugin. */
  readonly uncallable: readonly string[];
}

/**
 * Reads the reports of nodes on which something is wrong, within their limits: a node may write more. A kind that is not served
 * yet has none. @throws store/*
 */
export async function readNodeReports(
  api: OrchApi,
  signal: AbortSignal,
  which: typeof WITH_PROBLEMS | typeof WITH_ERRORS = WITH_PROBLEMS,
): Promise<readonly NodeReport[]> {
  try {
    const objects = await api.list(NODE_REPORTS, which, signal);
    return objects.flatMap((object) => {
      const decoded = decodeStoredResource(object);
      if (typeof decoded === 'string' || decoded.kind !== 'NodeReport') return [];
      return [{ ...decoded, spec: { ...decoded.spec, ...boundedReport(decoded.spec.problems) } }];
    });
  } catch (cause) {
    if (isUnknownKind(cause)) return [];
    throw cause;
  }
}

/**
 * Returns what an installation says of the reports. A report does not count once its Node is gone, nor when its agent has not
 * renewed it: that an agent does not run, its pod says. Nodes take turns, and the same problem of several nodes counts once, so that one node hides nothing of others. Pure.
 */
export function reportedNodes(
  reports: readonly NodeReport[],
  { nodes, nowMs }: { readonly nodes: readonly Pick<NodeState, 'name'>[]; readonly nowMs: number },
): ReportedNodes {
  const present = new Set(nodes.map(({ name }) => name));
  const counted = reports
    .filter(({ metadata, spec }) => present.has(metadata.name) && isRenewed(spec, nowMs))
    .toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  const said = new Map<string, Said>();
  for (let turn = 0; turn < REPORT_LIMITS.problems; turn += 1)
    for (const { metadata, spec } of counted) {
      const problem = spec.problems[turn];
      if (problem === undefined) continue;
      const before = said.get(problemName(problem));
      if (before === undefined) said.set(problemName(problem), { node: metadata.name, problem, more: 0 });
      else before.more += 1;
    }
  const all = [...said.values()];
  const errors = all.filter(({ problem }) => problem.severity === 'error');
  const uncallable = errors.filter(({ problem }) => isUncallable(problem));
  const warnings = all.filter(({ problem }) => problem.severity === 'warning');
  return {
    errors: firstOf(errors, SHOWN),
    warnings: firstOf(warnings, SHOWN_WARNINGS),
    uncallable: firstOf(uncallable, SHOWN),
  };
}

/** A problem of one node, and of how many more. */
interface Said {
  readonly node: string;
  readonly problem: ReportedNodeProblem;
  more: number;
}

/** Reports whether a report tells of the present: its agent has written it again in time. */
export function isRenewed({ reportedAt }: Pick<NodeReport['spec'], 'reportedAt'>, nowMs: number): boolean {
  return nowMs - Date.parse(reportedAt ?? '') < OUTDATED_MS;
}

function firstOf(all: readonly Said[], count: number): readonly string[] {
  const left = all.length - count;
  return [
    ...all.slice(0, count).map(({ node, more, problem: { text, remedy } }) => {
      const others = more === 0 ? '' : ` and ${String(more)} more`;
      return `node "${node}"${others}: ${text}${remedy === undefined ? '' : ` (${remedy})`}`;
    }),
    ...(left > 0 ? [`${String(left)} more: netplugctl node status --all`] : []),
  ];
}
