import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import type { OrchReader } from '../cni/orch-reader.ts';
import type { OrchSettings } from '../config/connection.ts';
import { NetplugError } from '../base/errors.ts';
import type { OrchAccess } from '../kube/access.ts';
import { OrchApi } from '../kube/orch-api.ts';
import { recordWarning } from '../kube/record-event.ts';
import { readPodCidrs, readPodFacts } from '../kube/read-facts.ts';
import type { Transport } from '../kube/transport.ts';

/** Returns the access to the API for the settings of a network configuration or a command. */
export type FindAccess = (settings: OrchSettings) => OrchAccess;

/** Returns the access to the API: orchconfig, URL, kubeconfig, or the account of the pod. @throws netconf/needs-orchestrator */
export function accessOf({ orchconfig, apiRoot, kubeconfig }: OrchSettings, env: NodeJS.ProcessEnv): OrchAccess {
  if (orchconfig !== undefined) return { from: 'file', path: orchconfig, apiRoot };
  if (apiRoot !== undefined) return { from: 'api-root', url: apiRoot };
  if (kubeconfig !== undefined) return { from: 'kubeconfig', ...kubeconfig };
  if ((env['KUBERNETES_SERVICE_HOST'] ?? '') !== '') return { from: 'in-cluster' };
  throw new NetplugError(
    'netconf/needs-orchestrator',
    'Cannot use the API of the orchestrator: no access to it is configured',
    {
      hint: 'Set orch.orchconfig (ORCHCONFIG, KUBECONFIG or --kubeconfig for netplugctl) to a file that gives access, or orch.orch_api_root to the URL',
    },
  );
}

/** Returns the access to the API that variables name on a kv datastore; without them, that of the pod of the program. */
export function orchestratorIn(env: NodeJS.ProcessEnv): OrchSettings {
  const { ORCHCONFIG: orchconfig = '', ORCH_API_ROOT: apiRoot = '' } = env;
  return {
    orchconfig: orchconfig === '' ? undefined : orchconfig,
    apiRoot: apiRoot === '' ? undefined : apiRoot,
    nodeName: undefined,
  };
}

/**
 * Returns a function that opens a reader of pods and nodes, which connects on the first request, over the transport if one
 * is shared with others.
 */
export function openOrchIn(
  env: NodeJS.ProcessEnv,
  transport?: Transport,
): (settings: OrchSettings) => OrchReader & AsyncDisposable {
  const shared = transport === undefined ? {} : { transport };
  return (settings) => {
    let opened: OrchApi | undefined;
    const api = (): OrchApi => (opened ??= new OrchApi(accessOf(settings, env), { env, ...shared }));
    return { ...orchReader(api), [Symbol.asyncDispose]: async () => opened?.[Symbol.asyncDispose]() };
  };
}

/** Returns a reader that calls `api` for each request. */
export function orchReader(api: () => OrchApi): OrchReader {
  return {
    readPod: async (pod, signal) => readPodFacts(api(), pod, signal),
    readPodCidrs: async (node, signal) => readPodCidrs(api(), node, signal),
    recordWarning: async (pod, message, signal) => warnOn(api(), { pod, reason: 'NetplugAnnotation', message }, signal),
  };
}

/** Writes an event on a pod, as of now. @throws store/unavailable, store/refused */
export async function warnOn(
  api: OrchApi,
  warning: Omit<Parameters<typeof recordWarning>[1], 'at' | 'id'>,
  signal: AbortSignal,
): Promise<void> {
  const at = new Date(systemClock.now()).toISOString().replace(/\.\d+Z$/, 'Z');
  await recordWarning(api, { ...warning, at, id: systemRandom.id() }, signal);
}
