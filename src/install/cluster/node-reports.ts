import type { OrchApi } from '../../kube/orch-api.ts';
import { isUnknownKind } from '../../kube/answers.ts';
import { decodeStoredResource } from '../../model/decode-resource.ts';
import { type NodeReport, PLUGIN_PROBLEMS, PROBLEMS_LABEL } from '../../model/node-report.ts';
import type { NodeState } from '../../kube/status/node-state.ts';

export const NODE_REPORTS = { group: 'netplug.io', version: 'v3', plural: 'nodereports' } as const;
/** Reports of nodes on which something is wrong. */
export const WITH_PROBLEMS = { labelSelector: PROBLEMS_LABEL } as const;

const SHOWN = 3;
const SHOWN_WARNINGS = 10;

/** What agents report of their nodes, as an installation shows it. */
export interface ReportedNodes {
  /** Sentences that name the node; the first few, and how many more. */
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
  /** Those of the errors for which the runtime of a node cannot call the plugin. */
  readonly uncallable: readonly string[];
}

/** Reads the reports of nodes on which something is wrong. A kind that is not served yet has none. @throws store/* */
export async function readNodeReports(api: OrchApi, signal: AbortSignal): Promise<readonly NodeReport[]> {
  try {
    const objects = await api.list(NODE_REPORTS, WITH_PROBLEMS, signal);
    return objects.flatMap((object) => {
      const decoded = decodeStoredResource(object);
      return typeof decoded !== 'string' && decoded.kind === 'NodeReport' ? [decoded] : [];
    });
  } catch (cause) {
    if (isUnknownKind(cause)) return [];
    throw cause;
  }
}

/** Returns what an installation says of the reports. A report outlives its Node for a while: it does not count then. Pure. */
export function reportedNodes(
  reports: readonly NodeReport[],
  nodes: readonly Pick<NodeState, 'name'>[],
): ReportedNodes {
  const present = new Set(nodes.map(({ name }) => name));
  const all = reports
    .filter(({ metadata }) => present.has(metadata.name))
    .toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
    .flatMap(({ metadata, spec }) =>
      spec.problems.map(({ code, severity, text, remedy }) => ({
        code,
        severity,
        said: `node "${metadata.name}": ${text}${remedy === undefined ? '' : ` (${remedy})`}`,
      })),
    );
  const errors = all.filter(({ severity }) => severity === 'error');
  const uncallable = errors.filter(({ code }) => UNCALLABLE.includes(code));
  const warnings = all.filter(({ severity }) => severity === 'warning');
  return {
    errors: firstOf(errors, SHOWN),
    warnings: firstOf(warnings, SHOWN_WARNINGS),
    uncallable: firstOf(uncallable, SHOWN),
  };
}

const UNCALLABLE: readonly string[] = [
  PLUGIN_PROBLEMS.unusable.code,
  PLUGIN_PROBLEMS.shadowed.code,
  PLUGIN_PROBLEMS.otherFolder.code,
];

function firstOf(all: readonly { readonly said: string }[], count: number): readonly string[] {
  const more = all.length - count;
  return [
    ...all.slice(0, count).map(({ said }) => said),
    ...(more > 0 ? [`${String(more)} more: netplugctl node status --all`] : []),
  ];
}
