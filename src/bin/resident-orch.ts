import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import type { Log } from '../base/log.ts';
import type { OrchReader } from '../cni/orch-reader.ts';
import type { OrchSettings } from '../config/connection.ts';
import { OrchApi } from '../kube/orch-api.ts';
import { PodWatcher } from '../kube/pod-watcher.ts';
import type { SharedWatches } from '../kube/shared-watches.ts';
import type { Transport } from '../kube/transport.ts';
import { agentAccessIn } from './agent-access.ts';
import { orchReader } from './open-orch.ts';

export interface ResidentOrch extends AsyncDisposable {
  /** Returns the reader for these settings. Disposing it keeps the connection open. */
  readonly open: (settings: OrchSettings) => OrchReader & AsyncDisposable;
}

/** Opens connections to APIs of orchestrators that outlive a call, each with a cache of the node's pods. */
export function residentOrch(
  node: string,
  {
    env,
    log,
    transport,
    watches,
  }: {
    readonly env: NodeJS.ProcessEnv;
    readonly log: Log;
    readonly transport: Transport;
    readonly watches: SharedWatches;
  },
): ResidentOrch {
  const stop = new AbortController();
  const findAccess = agentAccessIn(env);
  const opened = new Map<string, { readonly api: OrchApi; readonly pods: PodWatcher; readonly ended: Promise<void> }>();
  const connect = (settings: OrchSettings): { readonly api: OrchApi; readonly pods: PodWatcher } => {
    const access = findAccess(settings);
    const key = JSON.stringify(access);
    const known = opened.get(key);
    if (known !== undefined) return known;
    const api = new OrchApi(access, { env, transport, watches });
    const pods = new PodWatcher(node, { api, clock: systemClock, random: systemRandom, log });
    const connection = { api, pods, ended: pods.run(stop.signal) };
    opened.set(key, connection);
    return connection;
  };
  return {
    open: (settings) => ({
      ...orchReader(() => connect(settings).api),
      readPod: async (pod, signal) => connect(settings).pods.readPod(pod, signal),
      [Symbol.asyncDispose]: async () => Promise.resolve(),
    }),
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      for (const { api, ended } of opened.values()) {
        await ended;
        await api[Symbol.asyncDispose]();
      }
    },
  };
}
