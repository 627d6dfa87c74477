import * as v from 'valibot';
import { ownValue } from '../base/own-value.ts';
import { foreignRecord } from '../base/foreign-record.ts';
import type { ReadSecret } from '../bgp/passwords.ts';
import type { Datastore } from '../config/connection.ts';
import { readVariable } from '../config/environment.ts';
import { OrchApi } from '../kube/orch-api.ts';
import type { Transport } from '../kube/transport.ts';
import { agentAccessIn } from './agent-access.ts';

const secret = v.looseObject({ data: v.optional(foreignRecord(v.string(), v.string()), {}) });

/** Returns a function that reads Secrets of the namespace NETPLUG_NAMESPACE; without an orchestrator there are none. */
export function readSecretIn(env: NodeJS.ProcessEnv, datastore: Datastore, transport: Transport): ReadSecret {
  if (datastore.type !== 'orch') return async () => Promise.resolve(undefined);
  const namespace = readVariable(env, 'NETPLUG_NAMESPACE');
  const findAccess = agentAccessIn(env);
  return async (name, key, signal) => {
    await using api = new OrchApi(findAccess(datastore.orch), { env, transport });
    const answer = await api.get({ group: '', version: 'v1', plural: 'secrets', namespace }, name, signal);
    const found = answer.outcome === 'ok' ? ownValue(v.parse(secret, answer.value).data, key) : undefined;
    return found === undefined ? undefined : Buffer.from(found, 'base64').toString('utf8');
  };
}
