import { readFile } from 'node:fs/promises';
import { repeat, systemClock } from '../base/clock.ts';
import { NetplugError, reasonOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { systemRandom } from '../base/random.ts';
import { VERSION } from '../base/version.ts';
import type { Datastore } from '../config/connection.ts';
import { type Env, readVariable } from '../config/environment.ts';
import { FOLLOW_FORMATS, FOLLOW_PROTOCOL, SERVER_BYTES } from '../datastore/typha/follow-frames.ts';
import { TyphaStore } from '../datastore/typha/typha-store.ts';
import type { OrchApi } from '../kube/orch-api.ts';
import type { NodeName } from '../model/names.ts';
import { TYPHA } from '../model/typha.ts';
import { openStream } from '../stream/open-stream.ts';
import type { PeerListener, StreamPeer } from '../stream/peer.ts';
import { ServerDirectory } from '../stream/server-directory.ts';
import { leasesInApi } from '../stream/server-leases.ts';
import { connectTo } from '../stream/tls-client.ts';

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
  const clock = systemClock;
  const tokenFile = readVariable(env, 'NETPLUG_TYPHA_TOKEN');
  const usesPodCidrs = readVariable(env, 'USE_POD_CIDR') === 'true';
  const { list } = leasesInApi(api, { program: TYPHA, namespace: readVariable(env, 'NETPLUG_NAMESPACE') });
  const directory = new ServerDirectory({ clock, log, node, list, onChange: () => store.reconsider() });
  const connect = async (name: string, listener: PeerListener, signal: AbortSignal): Promise<StreamPeer> => {
    const server = directory.find(name);
    if (server === undefined) throw new NetplugError('store/unavailable', `Cannot connect to ${name}: it is gone`);
    const token = await readToken(tokenFile);
    const stream = await connectTo(server, FOLLOW_PROTOCOL, signal);
    const hello = { token, release: VERSION, formats: FOLLOW_FORMATS, about: { usesPodCidrs } };
    const { peer } = await openStream(stream, { hello, limitBytes: SERVER_BYTES, clock, listener }, signal);
    return peer;
  };
  const store: TyphaStore = new TyphaStore({
    clock,
    random: systemRandom,
    log,
    repeat,
    servers: {
      order: (now) => directory.order(now),
      learn: (servers) => directory.learn(servers),
      refresh: () => directory.refresh(),
      connect,
    },
  });
  return store;
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
