import { readVariable } from '../config/environment.ts';
import type { OrchSettings } from '../config/connection.ts';
import type { OrchAccess } from '../kube/access.ts';
import { accessOf, type FindAccess } from './open-orch.ts';

/**
 * Returns how the agent reaches the API of the orchestrator: with its own account when NETPLUG_ORCHCONFIG names one,
 * else as the settings say. Network configurations name the file of the plugin, whose account has fewer rights. Records
 * and journals are identified by the configuration, regardless of the account.
 */
export function agentAccessIn(env: NodeJS.ProcessEnv): FindAccess {
  const own = ownAccess(readVariable(env, 'NETPLUG_ORCHCONFIG'));
  return (settings: OrchSettings) => own ?? accessOf(settings, env);
}

function ownAccess(text: string): OrchAccess | undefined {
  if (text === '') return undefined;
  return text === 'in-cluster' ? { from: 'in-cluster' } : { from: 'file', path: text };
}
