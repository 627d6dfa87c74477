// Replicas of netplug-orch-controllers on this host, with datastore and API server of the test.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from './free-port.ts';
import { here } from './here.ts';
import type { Service, TestNode } from './node.ts';
import { until } from './until.ts';
import { BUILT } from './built.ts';

const PROGRAM = join(BUILT, 'netplug-orch-controllers');

export interface Replica extends Service, AsyncDisposable {
  readonly name: string;
  /** Asks its health endpoint; `status` is 0 when nothing answers. */
  ask(path: '/healthz' | '/readyz' | '/metrics'): Promise<{ readonly status: number; readonly body: string }>;
  /** Waits until it is ready: it leads and everything is in its desired state, or it could lead. */
  ready(): Promise<void>;
  /** Returns the value of one series, named with its labels; undefined when there is none. */
  metric(series: string): Promise<number | undefined>;
  isLeading(): Promise<boolean>;
}

/** Where the controllers find the datastore; the kubeconfig is of the API in both cases. */
export interface ControllerPlaces {
  readonly kubeconfig: string;
  /** On the API datastore when it is not given. */
  readonly etcdUrl?: string;
  /** Where they run; here unless given. */
  readonly place?: Pick<TestNode, 'start' | 'run'>;
}

/** Starts a replica and does not wait. `await using` kills it. */
export async function launchControllers(
  name: string,
  { kubeconfig, etcdUrl, place = here }: ControllerPlaces,
  env: Readonly<Record<string, string>> = {},
): Promise<Replica> {
  if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} is missing: run "make build" first`);
  const health = `127.0.0.1:${String(await freePort())}`;
  const service = await place.start([PROGRAM], {
    env: {
      POD_NAME: name,
      ORCHCONFIG: kubeconfig,
      NETPLUG_HEALTH_ADDRESS: health,
      ...(etcdUrl === undefined
        ? { DATASTORE_TYPE: 'orch', NETPLUG_NAMESPACE: 'default' }
        : { DATASTORE_TYPE: 'kvv3', KV_ENDPOINTS: etcdUrl }),
      ...env,
    },
  });
  let hasEnded = false;
  void service.ended.then(() => (hasEnded = true));
  const ask: Replica['ask'] = async (path) => {
    const url = `http://${health}${path}`;
    if (place !== here) {
      const { stdout } = await place.run([
        'curl',
        '--silent',
        '--max-time',
        '20',
        '--write-out',
        '\n%{http_code}',
        url,
      ]);
      const end = stdout.lastIndexOf('\n');
      return { status: Number(stdout.slice(end + 1)), body: stdout.slice(0, end) };
    }
    try {
      const answer = await fetch(url, { signal: AbortSignal.timeout(20_000) });
      return { status: answer.status, body: await answer.text() };
    } catch {
      return { status: 0, body: '' };
    }
  };
  const metric: Replica['metric'] = async (series) => {
    const { body } = await ask('/metrics');
    const line = body.split('\n').find((each) => each.startsWith(`${series} `));
    return line === undefined ? undefined : Number(line.slice(series.length));
  };
  return {
    ...service,
    name,
    ask,
    metric,
    isLeading: async () => (await metric('netplug_controllers_leading')) === 1,
    ready: async () =>
      until(
        async () => {
          if (hasEnded) throw new Error(`controllers "${name}" have ended:\n${service.log()}`);
          return (await ask('/readyz')).status === 200;
        },
        () => `controllers "${name}" are ready:\n${service.log()}`,
      ),
    [Symbol.asyncDispose]: async () => service.stop('KILL'),
  };
}
