import { constants, mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { serveNode } from '../apps/agent/agent.ts';
import { callHistory } from '../apps/agent/call-history.ts';
import { startHealthServer } from '../apps/agent/health-server.ts';
import { createMetrics } from '../apps/agent/metrics.ts';
import { networkFailure } from '../apps/agent/network/registration.ts';
import { NetworkProcess } from '../apps/agent/network-process.ts';
import { PodIsolator } from '../apps/agent/pod-isolator.ts';
import { ResidentNodes } from '../apps/agent/resident-nodes.ts';
import { AttachmentFiles } from '../cni/attachment-files.ts';
import { noIsolation } from '../cni/pod-isolation.ts';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { reportError } from '../base/report-error.ts';
import { readOwnVariables } from '../config/choose-connection.ts';
import { readVariable } from '../config/environment.ts';
import { tryLockFile } from '../dataplane/linux/file-lock.ts';
import { linuxKernel } from '../dataplane/linux/linux-kernel.ts';
import { Http2Transport } from '../kube/http2-transport.ts';
import { sharedWatchKey } from '../kube/orch-api.ts';
import { PODS, podsOf } from '../kube/paths.ts';
import { SharedWatches } from '../kube/shared-watches.ts';
import { WatchRelay } from '../kube/watch-relay.ts';
import { agentAccessIn } from './agent-access.ts';
import { AGENT_LOG } from './agent-log.ts';
import { attachedIn } from './attached.ts';
import { closePods } from './close-pods.ts';
import { hostIn } from './host-in.ts';
import { addressesInUse } from './addresses-in-use.ts';
import { interruptions } from './interruptions.ts';
import { launchNetwork } from './launch-network.ts';
import { agentLockPath } from './machine.ts';
import { networkSettingsIn } from './network-settings.ts';
import { nodeNameIn } from './node-name-in.ts';
import { openLog } from './open-log.ts';
import { openStoreIn } from './open-store.ts';
import { policySettingIn } from './policy-setting.ts';
import { attachmentFolder, stateDir } from './registration.ts';
import { residentOrch } from './resident-orch.ts';
import { residentTraces } from './resident-traces.ts';
import { serveCallIn } from './serve-call.ts';
import { journalFolder } from './recover-orphans.ts';

/** Runs the agent of the node until a signal stops it or another agent takes over. */
export async function runAgent(): Promise<void> {
  try {
    await run(process.env);
    process.exitCode = 0;
  } catch (cause) {
    const stderr = (text: string): void => void process.stderr.write(text);
    process.exitCode = reportError({ stderr }, cause);
  }
}

async function run(env: NodeJS.ProcessEnv): Promise<void> {
  const log = openLog(AGENT_LOG);
  const node = nodeNameIn(env);
  const { datastore, warnings } = readOwnVariables(env);
  for (const warning of warnings) log.warning('configuration', { warning });
  const address = readVariable(env, 'NETPLUG_HEALTH_ADDRESS');
  const warmPoolFloor = readVariable(env, 'NETPLUG_WARM_POOL_SIZE');
  const isNetworkingOn = readVariable(env, 'NETPLUG_NETWORKING') === 'on';
  // Validates the settings of the network process, so that the agent does not start with invalid ones.
  if (isNetworkingOn) networkSettingsIn(env, node);

  mkdirSync(stateDir(env), { recursive: true });
  const lock = openSync(agentLockPath(env), constants.O_RDWR | constants.O_CREAT, 0o600);
  const base = { clock: systemClock, random: systemRandom, log };
  using transport = new Http2Transport();
  const watches = new SharedWatches();
  const findAccess = agentAccessIn(env);
  using pods = new WatchRelay(systemClock);
  if (datastore.type === 'orch') watches.relay(sharedWatchKey(findAccess(datastore.orch), PODS, podsOf(node)), pods);
  const openStore = openStoreIn(env, {
    log,
    findAccess,
    transport,
    watches,
    sharesBlocks: isNetworkingOn,
  });
  const history = callHistory();
  const policy = policySettingIn(env, datastore);
  const isolator = new PodIsolator({ clock: systemClock, ...policy });
  const network = isNetworkingOn
    ? new NetworkProcess({
        ...base,
        launch: launchNetwork,
        isolator,
        followed: { follow: (queries, options) => nodes.get(datastore).inner.follow(queries, options) },
        onRestart: () => metrics.countNetworkRestart(),
        pods,
        reportOutage: async (message, signal) =>
          nodes.get(datastore).inner.reportNetwork(node, networkFailure(message), signal),
      })
    : undefined;
  using metrics = createMetrics(async () => {
    const standing = network === undefined ? undefined : ((await network.status())?.standing ?? 'down');
    return { ...nodes.standing(), network: standing };
  });
  await using traces = residentTraces(env, log);
  await using orch = residentOrch(node, { env, log, transport, watches });
  const kernel = linuxKernel();
  const nodes = new ResidentNodes(
    openStore,
    {
      ...base,
      place: { folder: journalFolder(env), tryLock: tryLockFile },
      host: hostIn(env),
      listAttached: attachedIn(kernel),
      listAddressesInUse: addressesInUse(kernel, new AttachmentFiles(attachmentFolder(env))),
      onJournalWait: metrics.observeJournalSync,
      onWritten: metrics.observeWriteWait,
    },
    { node, warmPoolFloor },
  );
  const serveCall = serveCallIn({
    node,
    nodes,
    log,
    env,
    openOrch: orch.open,
    isolation: isNetworkingOn ? isolator : noIsolation('NETPLUG_NETWORKING of the agent is off'),
    onLockWait: (ms) => metrics.observeLockWait('container', ms),
    onServed: (record) => {
      history.add(record);
      metrics.observeCall(record);
      traces.add(record);
    },
  });
  await serveNode(
    {
      ...base,
      nodes,
      openStore,
      serveCall,
      showCalls: history.answer,
      onCount: metrics.setCallsInFlight,
      onLockWait: (ms) => metrics.observeLockWait('agent', ms),
      network,
      closePods: async (signal) => {
        if (isNetworkingOn && policy.isOn) await closePods(signal);
      },
      tryBecomeOnly: () => tryLockFile(lock),
      startHealth: async () =>
        address === 'off'
          ? undefined
          : startHealthServer(address, {
              notReady: async () => [...nodes.problems(), ...((await network?.failures()) ?? [])],
              metrics,
              log,
            }),
    },
    {
      node,
      datastore,
      socketPath: readVariable(env, 'NETPLUG_SOCKET'),
      namePath: join(stateDir(env), 'nodename'),
    },
    interruptions(),
  );
}
