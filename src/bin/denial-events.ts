import { DenialEvents } from '../apps/agent/network/flows/denial-events.ts';
import { systemClock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Datastore } from '../config/connection.ts';
import { OrchApi } from '../kube/orch-api.ts';
import type { Transport } from '../kube/transport.ts';
import { agentAccessIn } from './agent-access.ts';
import { warnOn } from './open-orch.ts';

/** Returns what writes events on denied pods with the agent's account; undefined without the API datastore. */
export function denialEventsIn(
  env: NodeJS.ProcessEnv,
  {
    log,
    datastore,
    transport,
    podUid,
  }: {
    readonly log: Log;
    readonly datastore: Datastore;
    readonly transport: Transport;
    /** Returns undefined for a pod that is not known. */
    readonly podUid: (namespace: string, name: string) => string | undefined;
  },
): DenialEvents | undefined {
  if (datastore.type !== 'orch') return undefined;
  const api = new OrchApi(agentAccessIn(env)(datastore.orch), { env, transport });
  return new DenialEvents({
    clock: systemClock,
    log,
    warn: async ({ namespace, name }, message, signal) => {
      const uid = podUid(namespace, name);
      // Without it kubectl shows the event for no pod.
      if (uid === undefined) return;
      await warnOn(api, { pod: { namespace, name, uid }, reason: 'NetplugPolicyDenied', message }, signal);
    },
  });
}
