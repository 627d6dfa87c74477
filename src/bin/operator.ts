import { hostname } from 'node:os';
import { createOperatorMetrics } from '../apps/operator/metrics.ts';
import { OperatorServer } from '../apps/operator/serve-operator.ts';
import { DIGESTS_VARIABLE } from '../base/image-digests.ts';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { VERSION } from '../base/version.ts';
import { readVariable } from '../config/environment.ts';
import { ApiLease } from '../datastore/orch/api-lease.ts';
import { OPERATOR } from '../install/cluster/names.ts';
import { Http2Transport } from '../kube/http2-transport.ts';
import { OrchApi } from '../kube/orch-api.ts';
import { startHealthServer } from '../runtime/health-server.ts';
import { agentAccessIn } from './agent-access.ts';
import { interruptions } from './interruptions.ts';
import { openStderrLog } from './open-log.ts';
import { orchestratorIn } from './open-orch.ts';

/** An operator that has died is replaced after at most 5/3 of this. Nothing waits for it meanwhile. */
const LEASE_MS = 15_000;

/** Runs the operator until a signal stops it. */
export async function runOperator(env: NodeJS.ProcessEnv): Promise<void> {
  const log = openStderrLog();
  const stop = interruptions();
  const address = readVariable(env, 'NETPLUG_HEALTH_ADDRESS', OPERATOR);
  const namespace = readVariable(env, 'NETPLUG_NAMESPACE');
  const digests = readVariable(env, DIGESTS_VARIABLE, OPERATOR);
  using transport = new Http2Transport();
  const access = agentAccessIn(env)(orchestratorIn(env));
  const shared = { env, transport, manager: OPERATOR };
  await using leaseApi = new OrchApi(access, shared);
  const lease = new ApiLease(leaseApi, systemClock, {
    name: OPERATOR,
    namespace,
    holder: holderIn(env),
    durationMs: LEASE_MS,
  });
  // Writes of an operator that has lost the lease are not made. The namespace of the lease is written before.
  let isLeading = false;
  await using api = new OrchApi(access, {
    ...shared,
    fence: async (signal) => (isLeading ? lease.confirm(signal) : Promise.resolve()),
  });
  using metrics = createOperatorMetrics();
  const server = new OperatorServer({
    clock: systemClock,
    random: systemRandom,
    log,
    api,
    metrics: {
      ...metrics,
      setLeading: (isOn) => {
        isLeading = isOn;
        metrics.setLeading(isOn);
      },
    },
    lease,
    release: VERSION,
    digests,
    leaseHolder: async (signal) => lease.findHolder(signal),
  });
  const notReady = async (): Promise<readonly string[]> => Promise.resolve(server.notReady());
  await using _health = address === 'off' ? undefined : await startHealthServer(address, { notReady, metrics, log });
  await server.serve(stop);
}

/** Another process of the same pod is another holder: it does not know what the one before was doing. */
function holderIn(env: NodeJS.ProcessEnv): string {
  const pod = readVariable(env, 'POD_NAME');
  return `${pod === '' ? hostname() : pod}_${systemRandom.id()}`;
}
