import { closeSync, constants, mkdirSync, openSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { serveNode } from '../apps/agent/agent.ts';
import { callHistory } from '../apps/agent/call-history.ts';
import { createMetrics } from '../apps/agent/metrics.ts';
import type { CallSettings, RelayedObjects } from '../apps/agent/network-channel.ts';
import { NetworkProcess } from '../apps/agent/network-process.ts';
import { NodeConditions } from '../apps/agent/node-conditions.ts';
import { NodeProblems } from '../apps/agent/node-problems.ts';
import { readPodLinkNames } from '../apps/agent/network/host/read-pod-links.ts';
import { PodIsolator } from '../apps/agent/pod-isolator.ts';
import { ReservationReleaser } from '../apps/agent/release-reservations.ts';
import { ResidentNodes } from '../apps/agent/resident-nodes.ts';
import { AttachmentFiles } from '../cni/attachment-files.ts';
import { readDelegatedNetworks } from '../cni/delegated-networks.ts';
import { countedIsolation, noIsolation } from '../cni/pod-isolation.ts';
import { systemClock } from '../base/clock.ts';
import { freePagesOf, releaseAfterStart } from '../base/free-pages.ts';
import type { Log } from '../base/log.ts';
import { systemRandom } from '../base/random.ts';
import { agentSettings, logLevelOf } from '../config/agent-settings.ts';
import { readOwnVariables } from '../config/choose-connection.ts';
import { readVariable } from '../config/environment.ts';
import { tryLockFile } from '../dataplane/linux/file-lock.ts';
import { linuxHostNetwork } from '../dataplane/linux/host-network.ts';
import { linuxKernel } from '../dataplane/linux/linux-kernel.ts';
import type { WatchedBlocks } from '../datastore/orch/node-blocks.ts';
import { Http2Transport } from '../kube/http2-transport.ts';
import { sharedWatchKey } from '../kube/orch-api.ts';
import { SharedWatches } from '../kube/shared-watches.ts';
import { pluginFailures } from '../model/node-readiness.ts';
import { CALL_PROBLEMS, asNodeProblems } from '../model/node-report.ts';
import { threadFailures, ThreadPoolWatch } from '../runtime/thread-pool-watch.ts';
import { startHealthServer, startMetricsServer, startProbeServer } from '../runtime/health-server.ts';
import { WatchRelay } from '../kube/watch-relay.ts';
import { agentAccessIn } from './agent-access.ts';
import { attachedIn } from './attached.ts';
import { bootedAtMs } from './booted-at.ts';
import { closePods } from './close-pods.ts';
import { withdrawPods } from './withdraw-pods.ts';
import { usesTypha } from './fan-out.ts';
import { hostIn } from './host-in.ts';
import { machineIdentityIn } from './machine-identity.ts';
import { addressesInUse } from './addresses-in-use.ts';
import { interfacePrefixesIn } from './interface-prefixes.ts';
import { interruptions } from './interruptions.ts';
import { launchNetwork } from './launch-network.ts';
import { agentLockPath } from './machine.ts';
import { networkSettingsIn } from './network-settings.ts';
import { nodeNameIn } from './node-name-in.ts';
import { openStderrLog } from './open-log.ts';
import { openStoreIn } from './open-store.ts';
import { ownRangesOfHost } from './own-ranges.ts';
import { pluginFilesIn } from './plugin-files.ts';
import { missingControllers, missingProfile, policySettingIn } from './policy-setting.ts';
import { attachmentFolder, stateDir } from './registration.ts';
import { relayedObjects } from './relayed-objects.ts';
import { residentOrch } from './resident-orch.ts';
import { residentTraces } from './resident-traces.ts';
import { serveCallIn } from './serve-call.ts';
import { journalFolder } from './recover-orphans.ts';

/** Interval at which an agent that was replaced checks whether another one runs. */
const STAND_BY_MS = 1000;
const ALONE_PERIODS = 5;
/** Beside the socket of calls; `netplug-probe` has the same name. */
const PROBE_SOCKET = 'probes.sock';
/** Servers of netplug-typha look at the API for all agents, and say within 15 s that they have lost it: agents alone ask more often. */
const PROBE_BESIDE_TYPHA_MS = 25_000;

/** Runs the agent of the node until a signal stops it or another agent takes over. */
export async function runAgent(env: NodeJS.ProcessEnv): Promise<void> {
  const node = nodeNameIn(env);
  let settings: CallSettings = agentSettings(env, node, []).settings;
  const log = openStderrLog(() => logLevelOf(settings));
  const { datastore, warnings } = readOwnVariables(env);
  for (const warning of warnings) log.warning('configuration problem found', { problem: warning });
  const address = readVariable(env, 'NETPLUG_HEALTH_ADDRESS');
  const metricsAddress = readVariable(env, 'NETPLUG_METRICS_ADDRESS');
  const networking = readVariable(env, 'NETPLUG_NETWORKING');
  const isNetworkRun = networking !== 'off';
  // Validates the settings of the network process, so that the agent does not start with invalid ones.
  if (isNetworkRun) networkSettingsIn(env, node);
  const interfacePrefixes = interfacePrefixesIn(env, datastore);

  mkdirSync(stateDir(env), { recursive: true });
  const lock = openSync(agentLockPath(env), constants.O_RDWR | constants.O_CREAT, 0o600);
  const base = { clock: systemClock, random: systemRandom, log };
  using transport = new Http2Transport();
  const watches = new SharedWatches();
  const findAccess = agentAccessIn(env);
  const isFannedOut = usesTypha(env, datastore);
  using disposed = new DisposableStack();
  const relays = new Map<RelayedObjects, WatchRelay>();
  if (datastore.type === 'orch') {
    const access = findAccess(datastore.orch);
    for (const { of, collection, options, silenceMs } of relayedObjects(node, isFannedOut)) {
      const relay = disposed.use(new WatchRelay(systemClock, silenceMs));
      relays.set(of, relay);
      watches.relay(sharedWatchKey(access, collection, options), relay);
    }
  }
  const openStore = openStoreIn(env, {
    log,
    findAccess,
    transport,
    watches,
    probeAfterMs: isFannedOut && isNetworkRun ? PROBE_BESIDE_TYPHA_MS : undefined,
    watchedBlocks: watchedBlocks({ isFannedOut: isFannedOut && isNetworkRun, isConnecting: networking === 'on' }),
  });
  const history = callHistory();
  const policy = policySettingIn(env);
  const isolator = new PodIsolator({
    clock: systemClock,
    ...policy,
    findEndpointObstacle: async (endpoint, signal) =>
      missingProfile(datastore, { store: nodes.get(datastore).inner, endpoint }, signal),
    withdraw: withdrawPods,
    findObstacle: async (signal) => missingControllers(datastore, nodes.get(datastore).inner, signal),
  });
  const problems = new NodeProblems({
    ...base,
    store: () => nodes.get(datastore).inner,
    askNetwork: async () => (await network?.report())?.problems ?? [],
    collect: (ofNetwork) => [
      ...asNodeProblems(CALL_PROBLEMS.threads, threadFailures(threads)),
      ...nodes.problems(),
      ...nodes.warnings(),
      ...ofNetwork,
      ...pluginFiles.problems(),
      ...asNodeProblems(CALL_PROBLEMS.conditions, conditions.problems()),
      ...asNodeProblems(CALL_PROBLEMS.leaks, leaks.failures()),
    ],
  });
  const network = isNetworkRun
    ? new NetworkProcess({
        ...base,
        launch: launchNetwork,
        isolator,
        followed: { follow: (queries, options) => nodes.get(datastore).inner.follow(queries, options) },
        untilNamed: async (signal) => nodes.get(datastore).identified(signal),
        onRestart: () => metrics.countNetworkRestart(),
        onSettings: (changed) => (settings = changed),
        relays,
      })
    : undefined;
  using metrics = createMetrics(async () => {
    const report = await network?.report();
    return {
      ...nodes.standing(),
      network: report?.standing,
      problems: problems.with(report?.problems ?? []),
      tokenSecondsLeft: pluginFiles.tokenSecondsLeft(),
    };
  });
  await using traces = residentTraces(env, log);
  await using orch = residentOrch(node, { env, log, transport, watches });
  const kernel = linuxKernel();
  const ownRanges = ownRangesOfHost();
  const nodes = new ResidentNodes(
    openStore,
    {
      ...base,
      place: { folder: journalFolder(env), tryLock: tryLockFile },
      host: hostIn(env),
      listAttached: attachedIn(kernel),
      listAddressesInUse: addressesInUse(kernel, new AttachmentFiles(attachmentFolder(env))),
      ownRanges,
      onJournalWait: metrics.observeJournalSync,
      onWritten: metrics.observeWriteWait,
    },
    { node, machine: machineIdentityIn(env), warmPoolFloor: () => settings.warmPoolSize },
  );
  const serveCall = serveCallIn({
    node,
    nodes,
    log,
    env,
    openOrch: orch.open,
    ownRanges,
    isolation: countedIsolation(
      isNetworkRun ? isolator : noIsolation('NETPLUG_NETWORKING of the agent is off'),
      metrics.countIsolation,
    ),
    onLockWait: (ms) => metrics.observeLockWait('container', ms),
    onServed: (record) => {
      history.add(record);
      metrics.observeCall(record);
      traces.add(record);
    },
  });
  const leaks = new ReservationReleaser({
    ...base,
    serveCall,
    attachments: new AttachmentFiles(attachmentFolder(env)),
    listAttached: attachedIn(kernel),
    now: () => systemClock.now(),
    bootedAtMs,
    tryLock: tryLockFile,
    readNetworks: async () => readDelegatedNetworks(readVariable(env, 'NETPLUG_CNI_CONF_DIR')),
    binDir: readVariable(env, 'NETPLUG_CNI_BIN_DIR'),
  });
  const threads = new ThreadPoolWatch(systemClock);
  const callFailures = (): readonly string[] => [
    ...threadFailures(threads),
    ...nodes.problems().map(({ text }) => text),
  ];
  const obstacles = async (): Promise<readonly string[]> => [...callFailures(), ...((await network?.failures()) ?? [])];
  const pod = readVariable(env, 'POD_NAME');
  const remount = new AbortController();
  const onFolderReplaced = (reason: string): void => {
    // Only the kubelet creates the container again, with the folders of then.
    if (pod === '') return;
    log.warning('agent exited', { reason });
    remount.abort();
  };
  const pluginFiles = pluginFilesIn(env, { ...base, transport, obstacles, onFolderReplaced }, { node, datastore });
  const conditions = new NodeConditions(
    {
      ...base,
      store: () => nodes.get(datastore).inner,
      observe: async () => {
        const { failures = [], disconnections } = (await network?.observed()) ?? {};
        return {
          calls: callFailures(),
          network: failures,
          plugin: pluginFailures(pluginFiles.problems()),
          pending: pluginFiles.pending(),
          disconnections,
        };
      },
    },
    node,
  );
  const health = {
    notReady: async () => [...(await obstacles()), ...pluginFiles.failures()],
    warnings: () => [...pluginFiles.warnings(), ...nodes.warnings().map(({ text }) => text)],
    pod,
    metrics,
    log,
  };
  const stop = AbortSignal.any([interruptions(), remount.signal]);
  await pluginFiles.prepare(stop);
  let callsInFlight = 0;
  const ended = new AbortController();
  disposed.defer(() => ended.abort());
  const isBusy = (): boolean => callsInFlight > 0;
  void releaseAfterStart(freePagesOf(systemClock.monotonic), { clock: systemClock, isBusy }, ended.signal);
  const end = await serveNode(
    {
      ...base,
      nodes,
      openStore,
      serveCall,
      showCalls: history.answer,
      onCount: (inFlight) => {
        callsInFlight = inFlight;
        metrics.setCallsInFlight(inFlight);
      },
      onLockWait: (ms) => metrics.observeLockWait('agent', ms),
      network,
      problems,
      conditions: datastore.type === 'orch' ? conditions : undefined,
      isConnecting: networking === 'on',
      pluginFiles,
      leaks,
      closePods: async (signal) => {
        if (!isNetworkRun || !policy.isOn) return;
        await closePods(signal, { podLinks: await readPodLinkNames(linuxHostNetwork(), interfacePrefixes) });
      },
      tryBecomeOnly: () => tryLockFile(lock),
      startProbes: async () =>
        startProbeServer(join(dirname(readVariable(env, 'NETPLUG_SOCKET')), PROBE_SOCKET), health),
      startHealth: async () => (address === 'off' ? undefined : startHealthServer(address, health)),
      startMetrics: async () =>
        metricsAddress === 'off' ? undefined : startMetricsServer(metricsAddress, { metrics, log }),
    },
    {
      node,
      datastore,
      socketPath: readVariable(env, 'NETPLUG_SOCKET'),
      registry: { stateDir: stateDir(env), confDir: readVariable(env, 'NETPLUG_CNI_CONF_DIR') },
    },
    stop,
  );
  closeSync(lock);
  if (end === 'replaced' && pod !== '') await standBy(env, log, stop);
}

/** Routes need the metadata of all blocks; netplug-typha sends that of blocks of the node. */
function watchedBlocks({
  isFannedOut,
  isConnecting,
}: {
  readonly isFannedOut: boolean;
  readonly isConnecting: boolean;
}): WatchedBlocks {
  if (isFannedOut) return 'own-metadata';
  return isConnecting ? 'all-metadata' : 'own';
}

/**
 * Waits until the signal aborts, or until no other agent has run for some seconds. The kubelet restarts a container that
 * ends, and an agent that it restarts would replace its successor in turn.
 */
async function standBy(env: NodeJS.ProcessEnv, log: Log, stop: AbortSignal): Promise<void> {
  log.info('agent suspended', { reason: 'another agent serves the node' });
  for (let periods = 0; periods < ALONE_PERIODS && !stop.aborted;) {
    await systemClock.sleep(STAND_BY_MS, stop).catch(() => undefined);
    const lock = openSync(agentLockPath(env), constants.O_RDWR | constants.O_CREAT, 0o600);
    periods = tryLockFile(lock) ? periods + 1 : 0;
    closeSync(lock);
  }
  if (!stop.aborted)
    log.warning('agent exited', { reason: 'no other agent serves the node, so this one must be restarted' });
}
