import { createTyphaMetrics } from '../apps/typha/metrics.ts';
import { type RunningTypha, serveTypha } from '../apps/typha/serve-typha.ts';
import { typhaNotReady, typhaWarnings } from '../apps/typha/readiness.ts';
import { repeat, systemClock } from '../base/clock.ts';
import { NetplugError } from '../base/errors.ts';
import { aborted } from '../base/until-aborted.ts';
import { systemRandom } from '../base/random.ts';
import { VERSION } from '../base/version.ts';
import { readOwnVariables } from '../config/choose-connection.ts';
import { type Env, readVariable } from '../config/environment.ts';
import { apiVersionOf } from '../datastore/orch/follow.ts';
import { openOrchStore } from '../datastore/orch/orch-store.ts';
import { TYPHA } from '../model/typha.ts';
import { Http2Transport } from '../kube/http2-transport.ts';
import { OrchApi } from '../kube/orch-api.ts';
import { SharedWatches } from '../kube/shared-watches.ts';
import { startHealthServer, startMetricsServer } from '../runtime/health-server.ts';
import { makeOwnCertificate } from '../stream/own-certificate.ts';
import { leasesInApi } from '../stream/server-leases.ts';
import { certifiedName } from '../stream/tls-client.ts';
import { tokenReviewer } from '../stream/token-identity.ts';
import { agentAccessIn } from './agent-access.ts';
import { interruptions } from './interruptions.ts';
import { openStderrLog } from './open-log.ts';

/** How often a server that leaves looks whether it has clients. */
const LOOK_MS = 250;

/** Serves what every node follows to the agents, until a signal stops it. */
export async function runTypha(env: NodeJS.ProcessEnv): Promise<void> {
  const log = openStderrLog();
  const stop = interruptions();
  const { datastore, warnings } = readOwnVariables(env);
  for (const warning of warnings) log.warning('configuration problem found', { problem: warning });
  if (datastore.type !== 'orch') throw needsOrchestrator(datastore.type);
  const settings = settingsIn(env);
  using transport = new Http2Transport();
  const shared = { env, transport, watches: new SharedWatches(), manager: TYPHA };
  const access = agentAccessIn(env)(datastore.orch);
  await using api = new OrchApi(access, shared);
  await using store = openOrchStore(access, { ...shared, withStored: true });
  let running: RunningTypha | undefined;
  using metrics = createTyphaMetrics(() => running);
  const health = {
    notReady: async () => Promise.resolve(typhaNotReady(running)),
    warnings: () => typhaWarnings(running?.service),
    metrics,
    log,
  };
  await using _health = settings.health === 'off' ? undefined : await startHealthServer(settings.health, health);
  await using _metrics =
    settings.metrics === 'off' ? undefined : await startMetricsServer(settings.metrics, { metrics, log });
  await using typha = await serveTypha(
    {
      ...settings,
      release: VERSION,
      own: makeOwnCertificate(certifiedName(settings.name), systemClock.now()),
      identity: {
        audience: TYPHA,
        users: [`system:serviceaccount:${settings.namespace}:netplug-agent`],
        review: tokenReviewer(api, TYPHA),
      },
    },
    {
      clock: systemClock,
      random: systemRandom,
      log,
      repeat,
      store,
      versionOf: apiVersionOf,
      leases: leasesInApi(api, {
        program: TYPHA,
        namespace: settings.namespace,
        ...(settings.uid === '' ? {} : { owner: { pod: settings.name, uid: settings.uid } }),
      }),
    },
  );
  running = typha;
  log.info('serving', { server: settings.name, port: typha.listener.port });
  await aborted(stop);
  await leave(typha, settings.drainSeconds * 1000);
}

/** @throws store/config-invalid for every setting that is missing or not allowed */
function settingsIn(env: Env) {
  const name = required(env, 'POD_NAME', 'the name of the pod');
  // Pods of one ReplicaSet were started together.
  const generation = name.replace(/-[^-]*$/, '');
  return {
    name,
    generation,
    listen: readVariable(env, 'NETPLUG_TYPHA_LISTEN', TYPHA),
    addresses: required(env, 'HOST_IPS', 'the addresses of the host, separated by commas').split(','),
    maxClients: readVariable(env, 'NETPLUG_TYPHA_MAX_CLIENTS', TYPHA),
    usesPodCidrs: readVariable(env, 'USE_POD_CIDR', TYPHA) === 'true',
    namespace: readVariable(env, 'NETPLUG_NAMESPACE', TYPHA),
    uid: readVariable(env, 'POD_UID', TYPHA),
    drainSeconds: readVariable(env, 'NETPLUG_TYPHA_DRAIN_SECONDS', TYPHA),
    health: readVariable(env, 'NETPLUG_HEALTH_ADDRESS', TYPHA),
    metrics: readVariable(env, 'NETPLUG_METRICS_ADDRESS', TYPHA),
  };
}

function required(env: Env, name: 'POD_NAME' | 'HOST_IPS', what: string): string {
  const value = readVariable(env, name, TYPHA);
  if (value !== '') return value;
  throw new NetplugError('store/config-invalid', `Cannot start: ${name} is not set`, { hint: `Set it to ${what}` });
}

function needsOrchestrator(type: string): NetplugError {
  return new NetplugError(
    'typha/needs-orchestrator',
    `Cannot serve a datastore of type "${type}": netplug-typha relieves API servers, and etcd serves as many agents itself`,
    { hint: 'Set DATASTORE_TYPE=orch, or run the cluster without netplug-typha' },
  );
}

/** Lets the agents move to other servers, and ends when none is left. */
async function leave(typha: RunningTypha, withinMs: number): Promise<void> {
  const untilMs = systemClock.monotonic() + withinMs;
  await typha.leave(withinMs);
  while (typha.service.sessions.size > 0 && systemClock.monotonic() < untilMs)
    await systemClock.sleep(LOOK_MS, new AbortController().signal);
}
