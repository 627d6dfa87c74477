import type { ResourceListing, ResourceStore } from '../../../datastore/resource-store.ts';
import { isUnknownKind } from '../../../kube/answers.ts';
import type { NodeReportSpec } from '../../../model/node-report.ts';

/** Lists what agents report of their nodes. A cluster of an earlier release has no such kind, and so no report. @throws store/* */
export async function listReports(store: ResourceStore, signal: AbortSignal): Promise<ResourceListing<'NodeReport'>> {
  try {
    return await store.listResources('NodeReport', signal);
  } catch (cause) {
    if (isUnknownKind(cause)) return { resources: [], problems: [] };
    throw cause;
  }
}

/** Reports whether an agent has said what it knows: before its first report it records its machine. */
export function hasReported({ reportedAt }: Pick<NodeReportSpec, 'reportedAt'>): boolean {
  return reportedAt !== undefined;
}
