import type { EventPod } from '../apps/agent/network/host/attachment-watch.ts';
import type { Datastore } from '../config/connection.ts';
import { OrchApi } from '../kube/orch-api.ts';
import type { Transport } from '../kube/transport.ts';
import { agentAccessIn } from './agent-access.ts';
import { warnOn } from './open-orch.ts';

/** Returns a function that writes warnings on pods that lost their interface, as the agent; undefined without the API datastore. */
export function podWarningsIn(
  env: NodeJS.ProcessEnv,
  { datastore, transport }: { readonly datastore: Datastore; readonly transport: Transport },
): ((pod: EventPod, message: string, signal: AbortSignal) => Promise<void>) | undefined {
  if (datastore.type !== 'orch') return undefined;
  const api = new OrchApi(agentAccessIn(env)(datastore.orch), { env, transport });
  return async (pod, message, signal) => warnOn(api, { pod, reason: 'NetplugInterfaceMissing', message }, signal);
}
