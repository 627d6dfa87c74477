import type { CtlPorts } from '../apps/ctl/ports.ts';
import { listEnforcedPolicies } from '../kube/admission-policies.ts';
import { OrchApi } from '../kube/orch-api.ts';
import { accessOf } from './open-orch.ts';

/** Asks the API that the settings lead to. */
export function listEnforcedPoliciesIn(env: NodeJS.ProcessEnv): CtlPorts['listEnforcedPolicies'] {
  return async (settings, signal) => {
    await using api = new OrchApi(accessOf(settings, env), { env });
    return await listEnforcedPolicies(api, signal);
  };
}
