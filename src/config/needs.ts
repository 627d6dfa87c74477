import type { OrchSettings } from './connection.ts';
import type { Ipam, OrchestratorNeed } from './netconf.ts';

export interface Decided {
  readonly orch: OrchSettings;
  readonly datastoreType: 'kvv3' | 'orch';
  readonly ipam: Ipam;
  readonly policy: { readonly type?: string | undefined };
}

/** Returns the settings that need the API of the orchestrator when no access is configured, each with the reason. */
export function findNeeds({ orch, datastoreType, ipam, policy }: Decided): OrchestratorNeed[] {
  const needs: OrchestratorNeed[] = [];
  if (orch.orchconfig !== undefined || orch.apiRoot !== undefined) return needs;
  if (datastoreType === 'orch') {
    needs.push({ path: 'datastore_type', reason: 'records are kept in the API of the orchestrator' });
  }
  if (policy.type === 'orch') {
    needs.push({ path: 'policy.type', reason: 'labels and annotations of pods come from the orchestrator' });
  }
  if (ipam.type === 'host-local') {
    for (const path of ipam.podCidrPaths) needs.push({ path, reason: 'pod CIDRs of nodes come from the orchestrator' });
  }
  return needs;
}
