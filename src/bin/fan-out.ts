import { readFile } from 'node:fs/promises';
import { repeat, systemClock } from '../base/clock.ts';
import { NetplugError, reasonOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { systemRandom } from '../base/random.ts';
import { VERSION } from '../base/version.ts';
import type { Datastore } from '../config/connection.ts';
import { type Env, readVariable } from '../config/environment.ts';
import { openTyphaStore } from '../datastore/typha/open-typha-store.ts';
import type { TyphaStore } from '../datastore/typha/typha-store.ts';
import type { OrchApi } from '../kube/orch-api.ts';
import type { NodeName } from '../model/names.ts';
import { TYPHA } from '../model/typha.ts';
import { leasesInApi } from '../stream/server-leases.ts';

/** Reports whether the agent follows what all nodes follow through netplug-typha. @throws typha/needs-orchestrator */
export function usesTypha(env: Env, datastore: Datastore): boolean {
  if (readVariable(env, 'NETPLUG_TYPHA') === 'off') return false;
  if (datastore.type === 'orch') return true;
  throw new NetplugError(
    'typha/needs-orchestrator',
    `Cannot follow a datastore of type "${datastore.type}" through netplug-typha: NETPLUG_TYPHA is "on"`,
    { hint: 'Set NETPLUG_TYPHA=off: etcd serves the agents itself' },
  );
}

/** Opens what netplug-typha serves. It connects when the first follower begins. */
export function openTypha(
  env: Env,
  { node, log, api }: { readonly node: NodeName; readonly log: Log; readonly api: OrchApi },
): TyphaStore {
  const tokenFile = readVariable(env, 'NETPLUG_TYPHA_TOKEN');
  return openTyphaStore(
    {
      node,
      release: VERSION,
      usesPodCidrs: readVariable(env, 'USE_POD_CIDR') === 'true',
      readToken: async () => readToken(tokenFile),
      listServers: leasesInApi(api, { program: TYPHA, namespace: readVariable(env, 'NETPLUG_NAMESPACE') }).list,
    },
    { clock: systemClock, random: systemRandom, log, repeat },
  );
}

/** The kubelet replaces the file before the token ends. */
async function readToken(path: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).trim();
  } catch (cause) {
    throw new NetplugError('typha/no-token', `Cannot read the token for netplug-typha: ${reasonOf(cause)}`, {
      cause,
      hint: 'An agent outside of a pod has no such token: set NETPLUG_TYPHA=off',
      facts: { path },
    });
  }
}
