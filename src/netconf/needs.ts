import type { Ipam, OrchestratorNeed } from './netconf.ts';

export interface Decided {
  readonly datastoreType: 'kvv3' | 'orch';
  readonly ipam: Ipam;
  readonly policy: { readonly type?: string | undefined };
  readonly features: { readonly ip_addrs_no_ipam: boolean; readonly floating_ips: boolean };
}

/** Settings that cannot work without the API of the orchestrator, each with the reason. */
export function findNeeds({ datastoreType, ipam, policy, features }: Decided): OrchestratorNeed[] {
  const needs: OrchestratorNeed[] = [];
  if (datastoreType === 'orch') {
    needs.push({ path: 'datastore_type', reason: 'records would be kept in the API of the orchestrator' });
  }
  if (policy.type === 'orch') {
    needs.push({ path: 'policy.type', reason: 'labels and annotations of pods come from the orchestrator' });
  }
  for (const name of ['ip_addrs_no_ipam', 'floating_ips'] as const) {
    if (!features[name]) continue;
    needs.push({ path: `feature_control.${name}`, reason: 'annotations of pods come from the orchestrator' });
  }
  if (ipam.type === 'host-local') {
    for (const path of ipam.podCidrPaths) needs.push({ path, reason: 'pod CIDRs of nodes come from the orchestrator' });
  }
  return needs;
}
