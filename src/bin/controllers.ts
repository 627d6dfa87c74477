import { hostname } from 'node:os';
import { createControllerMetrics } from '../apps/controllers/metrics.ts';
import { REGISTRY } from '../apps/controllers/registry.ts';
import { ControllerServer } from '../apps/controllers/serve-controllers.ts';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { readOwnVariables } from '../config/choose-connection.ts';
import type { Datastore } from '../config/connection.ts';
import { controllersSettings } from '../config/controllers-settings.ts';
import { readVariable } from '../config/environment.ts';
import { openEtcdLease } from '../datastore/kv/etcd-lease.ts';
import { openKvStore } from '../datastore/kv/kv-store.ts';
import { ApiLease, type ApiLeaseOptions } from '../datastore/orch/api-lease.ts';
import { openOrchStore } from '../datastore/orch/orch-store.ts';
import type { Store } from '../datastore/store.ts';
import type { OrchAccess } from '../kube/access.ts';
import { Http2Transport } from '../kube/http2-transport.ts';
import { OrchApi, type OrchApiOptions } from '../kube/orch-api.ts';
import { SharedWatches } from '../kube/shared-watches.ts';
import { CONTROLLERS } from '../model/automatic-host-endpoint.ts';
import { startHealthServer, startMetricsServer } from '../runtime/health-server.ts';
import type { LeaderLease } from '../runtime/leader-lease.ts';
import { agentAccessIn } from './agent-access.ts';
import { interruptions } from './interruptions.ts';
import { openStderrLog } from './open-log.ts';
import { orchestratorIn } from './open-orch.ts';

/** A leader that has died is replaced after at most 5/3 of this, and what it left is done within 15 s. */
const LEASE_MS = 6000;
/** The Lease object that only shows who leads. Writing it costs more than renewing the other one. */
const SHOWN_LEASE_MS = 60_000;

/** Runs the controllers until a signal stops them. */
export async function runControllers(env: NodeJS.ProcessEnv): Promise<void> {
  const log = openStderrLog();
  const stop = interruptions();
  const { datastore, warnings } = readOwnVariables(env);
  for (const warning of warnings) log.warning('configuration problem found', { problem: warning });
  // Refuses bad settings before anything is done.
  controllersSettings(env, datastore.type);
  const address = readVariable(env, 'NETPLUG_HEALTH_ADDRESS', CONTROLLERS);
  const metricsAddress = readVariable(env, 'NETPLUG_METRICS_ADDRESS');
  using transport = new Http2Transport();
  const shared = { env, transport, watches: new SharedWatches(), manager: CONTROLLERS };
  const access = agentAccessIn(env)(datastore.type === 'orch' ? datastore.orch : orchestratorIn(env));
  await using api = new OrchApi(access, shared);
  await using opened = open(datastore, { env, access, api, shared });
  using metrics = createControllerMetrics();
  const server = new ControllerServer({
    clock: systemClock,
    random: systemRandom,
    log,
    api,
    metrics,
    isApart: datastore.type === 'kvv3',
    registry: REGISTRY,
    store: opened.store,
    lease: opened.lease,
    ...(opened.published === undefined ? {} : { published: opened.published }),
    followed: { datastore: opened.store, orchestrator: opened.orchestrator },
    settingsFor: (configuration) => controllersSettings(env, datastore.type, configuration?.spec),
  });
  const notReady = async (): Promise<readonly string[]> => Promise.resolve(server.notReady());
  await using _health = address === 'off' ? undefined : await startHealthServer(address, { notReady, metrics, log });
  await using _metrics =
    metricsAddress === 'off' ? undefined : await startMetricsServer(metricsAddress, { metrics, log });
  await server.serve(stop);
}

interface Opened extends AsyncDisposable {
  /** Behind the fence. */
  readonly store: Store;
  readonly orchestrator: Store;
  readonly lease: LeaderLease;
  /** The Lease object, where the lease is a key of etcd. */
  readonly published?: LeaderLease;
}

function open(
  datastore: Datastore,
  {
    env,
    access,
    api,
    shared,
  }: {
    readonly env: NodeJS.ProcessEnv;
    readonly access: OrchAccess;
    readonly api: OrchApi;
    readonly shared: OrchApiOptions;
  },
): Opened {
  const holder = holderIn(env);
  const named = { name: CONTROLLERS, holder, durationMs: LEASE_MS };
  const object = (more: Partial<ApiLeaseOptions>): ApiLease =>
    new ApiLease(api, systemClock, { ...named, namespace: readVariable(env, 'NETPLUG_NAMESPACE'), ...more });
  if (datastore.type === 'kvv3') {
    const lease = openEtcdLease(datastore.connection, named);
    const store = openKvStore(datastore.connection, { fence: () => lease.held });
    // It has no kind of netplug to ask for. A connection that is lost is noticed, and what is deleted is asked for before.
    const orchestrator = openOrchStore(access, { ...shared, probeAfterMs: Infinity });
    return {
      store,
      orchestrator,
      lease,
      published: object({ durationMs: SHOWN_LEASE_MS, isOnlyShown: true }),
      [Symbol.asyncDispose]: async () => {
        for (const each of [store, orchestrator, lease]) await each[Symbol.asyncDispose]();
      },
    };
  }
  const lease = object({});
  const store = openOrchStore(access, { ...shared, fence: async (signal) => lease.confirm(signal) });
  return { store, orchestrator: store, lease, [Symbol.asyncDispose]: async () => store[Symbol.asyncDispose]() };
}

/** A pod has one container of this name at a time; a host may have several processes. */
function holderIn(env: NodeJS.ProcessEnv): string {
  const pod = readVariable(env, 'POD_NAME');
  return pod === '' ? `${hostname()}_${systemRandom.id()}` : pod;
}
