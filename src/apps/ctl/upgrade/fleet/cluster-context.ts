import { CONNECTION_KEYS, ORCH_KEYS } from '../../../../config/decode-connection.ts';
import type { FleetCluster } from '../../../../upgrade/fleet/fleet.ts';
import type { Context, Io } from '../../ports.ts';

/** Variables that name a cluster or its datastore: of a fleet, only the file does so. */
const OF_ONE_CLUSTER = new Set([
  ...[...CONNECTION_KEYS, ...ORCH_KEYS].map((key) => key.toUpperCase()),
  'KUBERNETES_SERVICE_HOST',
]);

/** Returns the context of a command for one cluster of a fleet. Its messages go to standard error, each line with its name. */
export function contextOf(context: Context, cluster: FleetCluster, signal: AbortSignal): Context {
  const { name, kubeconfig, config } = cluster;
  const env = Object.fromEntries(Object.entries(context.env).filter(([key]) => !OF_ONE_CLUSTER.has(key)));
  return {
    ...context,
    env,
    config,
    kubeconfig: { file: kubeconfig, context: cluster.context },
    io: namedIo(context.io, name),
    signal,
    stopped: signal,
  };
}

/** Standard output is left to what the command says of the whole fleet. */
function namedIo(io: Io, name: string): Io {
  const write = (text: string): void => {
    const lines = text.endsWith('\n') ? text.slice(0, -1) : text;
    io.stderr(
      lines
        .split('\n')
        .map((line) => `${`${name}: ${line}`.trimEnd()}\n`)
        .join(''),
    );
  };
  return { ...io, stdout: write, stderr: write, isTty: false };
}
