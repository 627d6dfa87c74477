import type { CtlPorts } from '../cli/ports.ts';
import { listEnforcedPolicies } from '../orch-api/admission-policies.ts';
import { OrchApi } from '../orch-api/orch-api.ts';
import { accessOf } from './open-orch.ts';

/** Asks the API that the settings lead to. */
export function listEnforcedPoliciesIn(env: NodeJS.ProcessEnv): CtlPorts['listEnforcedPolicies'] {
  return async (settings, signal) => {
    await using api = new OrchApi(accessOf(settings, env), { env });
    return await listEnforcedPolicies(api, signal);
  };
}
