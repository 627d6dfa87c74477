import { constants, mkdirSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import type { FromNetwork, RelayedObjects, ToNetwork } from '../apps/agent/network-channel.ts';
import { NodeNetwork } from '../apps/agent/network/node-network.ts';
import { PolicyNetwork } from '../apps/agent/network/policy-network.ts';
import { TableFollower } from '../apps/agent/network/follow-tables.ts';
import { DeniedFlows } from '../apps/agent/network/policy/denied-flows.ts';
import { FlowObserver } from '../apps/agent/network/flows/flow-observer.ts';
import { SettingsFollower } from '../apps/agent/network/policy/follow-settings.ts';
import { flowJudge } from '../apps/agent/network/flows/judge-flow.ts';
import { DatastoreServers } from '../apps/agent/network/policy/datastore-servers.ts';
import { hostEndpointsToward } from '../apps/agent/network/flows/host-endpoints-toward.ts';
import { FIREWALL_INSPECTION } from '../apps/agent/network/host/inspect-firewall.ts';
import { type HostReading, readHost } from '../apps/agent/network/host/read-host-links.ts';
import { PolicyEnforcement } from '../apps/agent/network/policy/policy-enforcement.ts';
import { listEndpoints } from '../apps/agent/network/host/read-attachments.ts';
import { OverruledRoutes } from '../apps/agent/network/host/overruled-routes.ts';
import { RateBounder } from '../apps/agent/network/host/bound-rates.ts';
import { PodLinkFollower } from '../apps/agent/network/host/follow-pod-links.ts';
import { type RelayedKind, relayOwnObjects } from '../apps/agent/network/relay-own-objects.ts';
import { followOnce, publishOnce } from '../apps/agent/network/once-named.ts';
import { serveNetworkProcess } from '../apps/agent/network/serve-network.ts';
import { registerName } from '../apps/agent/register-node.ts';
import { keepFile, writeFileAtomically } from '../base/atomic-file.ts';
import { systemClock } from '../base/clock.ts';
import { freePagesOf, releaseAfterStart } from '../base/free-pages.ts';
import type { Log, LogLevel } from '../base/log.ts';
import { OpenedOnce } from '../base/opened-once.ts';
import { systemRandom } from '../base/random.ts';
import { type EffectiveSettings, endpointToHostAction, logLevelOf } from '../config/agent-settings.ts';
import { readOwnVariables } from '../config/choose-connection.ts';
import { readVariable } from '../config/environment.ts';
import { AttachmentFiles } from '../cni/attachment-files.ts';
import { failureFacts } from '../cni/error-output.ts';
import { serverPorts } from '../datastore/server-ports.ts';
import { FollowClient } from '../datastore/follow-client.ts';
import { relayStoredObjects } from '../datastore/typha/relay-stored-objects.ts';
import { storedObjects } from '../datastore/typha/stored-objects.ts';
import type { FollowTopic, TopicQuery } from '../datastore/typha/topics.ts';
import { tryLockFile } from '../dataplane/linux/file-lock.ts';
import { dieWithParent } from '../dataplane/linux/lifetime.ts';
import { linuxHostNetwork } from '../dataplane/linux/host-network.ts';
import { linuxKernel } from '../dataplane/linux/linux-kernel.ts';
import { linuxPacketReports } from '../dataplane/linux/linux-packet-reports.ts';
import { findListener } from '../dataplane/linux/find-listener.ts';
import { linuxTableEvents } from '../dataplane/linux/linux-table-events.ts';
import { LinuxFlowTable } from '../dataplane/linux/linux-flow-table.ts';
import { ownProgramName } from '../dataplane/linux/own-program.ts';
import { NftPolicyFilter } from '../dataplane/linux/nft-policy-filter.ts';
import { ThreadPoolWatch } from '../runtime/thread-pool-watch.ts';
import { Http2Transport } from '../kube/http2-transport.ts';
import { OrchApi } from '../kube/orch-api.ts';
import { ALL_ENDPOINTS, ENDPOINTS } from '../datastore/orch/endpoint-objects.ts';
import { PODS, RUN_PODS } from '../kube/paths.ts';
import { type RelayedEvent, SharedWatches } from '../kube/shared-watches.ts';
import type { RelayState } from '../kube/watch-relay.ts';
import { agentAccessIn } from './agent-access.ts';
import { attachedIn } from './attached.ts';
import { attachmentWatchIn } from './attachment-watch-in.ts';
import { birdFolder, birdIn } from './bird-in.ts';
import { apiOriginIn } from './api-origin-in.ts';
import { denialEventsIn } from './denial-events.ts';
import { openTypha, usesTypha } from './fan-out.ts';
import { followedIn } from './followed-in.ts';
import { hostInspectorIn } from './host-inspector-in.ts';
import { hostPortsIn } from './host-ports-in.ts';
import { interfacePrefixesIn } from './interface-prefixes.ts';
import { networkSettingsIn } from './network-settings.ts';
import { nodeNameIn } from './node-name-in.ts';
import { openStderrLog } from './open-log.ts';
import { openStoreIn } from './open-store.ts';
import { ownRangesOfHost } from './own-ranges.ts';
import { readSecretIn } from './read-secret.ts';
import { readText } from './read-text.ts';
import { PACKET_TABLES } from '../install/packet-tables.ts';
import { POLICY_TABLE } from '../policy/ruleset/policy-ruleset.ts';
import { datastoreServers } from '../policy/api-servers.ts';
import { failsafePorts, withServers, withTunnels } from '../policy/open-ports.ts';
import type { PolicyView } from '../policy/policy-view.ts';
import { RulesetCompiler } from '../policy/ruleset/ruleset-compiler.ts';
import { GuardFile } from '../apps/agent/network/sidecars/kept-guards.ts';
import { listSidecarPods } from '../apps/agent/network/sidecars/list-sidecar-pods.ts';
import { SidecarServer } from '../apps/agent/network/sidecars/serve-sidecars.ts';
import { VERSION } from '../base/version.ts';
import { loadAddon } from '../dataplane/linux/addon.ts';
import { listenInPod } from '../dataplane/linux/listen-in-pod.ts';
import { AGENT_SOCKET } from '../policy/feed/messages.ts';
import { policySettingIn } from './policy-setting.ts';
import { attachmentFolder, policyMarker, serverMemory, stateDir } from './registration.ts';

const LOCK_PERIOD_MS = 10;

/** Runs the network of the node for the agent that started this process, until the agent stops it or exits. */
export async function runNetwork(): Promise<void> {
  const severity: { level: LogLevel } = { level: 'INFO' };
  const log = openStderrLog(() => severity.level);
  // Only the agent stops this process; service managers and terminals send signals to all processes.
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(name, () => undefined);
  process.once('disconnect', () => process.exit());
  try {
    // A process that hangs does not notice the end of its channel, and would keep its lock from the next one.
    dieWithParent();
    await run(process.env, log, (level) => (severity.level = level));
    process.exitCode = 0;
  } catch (cause) {
    log.error('network failed', failureFacts(cause));
  }
  process.removeAllListeners('disconnect');
  process.disconnect();
}

async function run(env: NodeJS.ProcessEnv, log: Log, setLevel: (level: LogLevel) => void): Promise<void> {
  const node = nodeNameIn(env);
  const { datastore } = readOwnVariables(env);
  const settings = networkSettingsIn(env, node);
  const state = stateDir(env);
  const runDir = readVariable(env, 'NETPLUG_RUN_DIR');
  using transport = new Http2Transport();
  const findAccess = agentAccessIn(env);
  const watches = new SharedWatches();
  await using store = openStoreIn(env, {
    log,
    findAccess,
    transport,
    watches,
    // The agent asks: both fail to follow the cluster when the API serves it no more.
    probeAfterMs: Infinity,
  })(datastore);
  const send = (message: FromNetwork): void => void process.send?.(message);
  const agent = new FollowClient(send);
  // On etcd a stream costs the same with more ranges. The API has a watch for each kind.
  await using typhaApi =
    usesTypha(env, datastore) && datastore.type === 'orch'
      ? new OrchApi(findAccess(datastore.orch), { env, transport, watches })
      : undefined;
  const typha = typhaApi === undefined ? undefined : openTypha(env, { node, log, api: typhaApi });
  const followed = followedIn({ agent, store, typha, datastore });
  // A kernel that cannot filter is named by the parts that need it.
  using tables = new OpenedOnce(() => NftPolicyFilter.open());
  using flowTable = new OpenedOnce(() => LinuxFlowTable.open());
  const kernel = linuxKernel({ sourceCheck: settings.sourceCheck });
  const linked = { attachments: new AttachmentFiles(attachmentFolder(env)), listAttached: attachedIn(kernel) };
  const host = linuxHostNetwork({
    vxlanChecksums: () => agentSettings.settings.vxlanChecksums,
    recordFolder: state,
  });
  const base = { clock: systemClock, random: systemRandom, log };
  const named = Promise.withResolvers<undefined>();
  const networkPorts = { ...base, host, ownRanges: ownRangesOfHost(), filter: () => tables.get() };
  const connectingNetwork = (): NodeNetwork =>
    new NodeNetwork(
      {
        ...networkPorts,
        store,
        hostSides: kernel,
        hostPorts: hostPortsIn(env, kernel),
        // All that it writes follows from what it reads.
        followed: followOnce(named.promise, followed),
        flowTable: () => flowTable.get(),
        translations: {
          load: () => readText(join(runDir, 'translations')) ?? '',
          save: async (text) => {
            mkdirSync(runDir, { recursive: true });
            await writeFileAtomically(join(runDir, 'translations'), { text, mode: 0o600 });
          },
        },
        servers: { found: () => servers.found, current: () => servers.current.map(({ address }) => address) },
        bird: birdIn(env),
        findListener,
        birdLog: join(birdFolder(env), 'bird.log'),
        readSecret: readSecretIn(env, datastore, transport),
        ...linked,
        register: async ({ mtu }) => {
          mkdirSync(state, { recursive: true });
          await keepFile(join(state, 'mtu'), {
            text: mtu === undefined ? '' : `${String(mtu)}\n`,
            mode: 0o644,
          });
          await registerName({ stateDir: state, confDir: readVariable(env, 'NETPLUG_CNI_CONF_DIR') }, node);
        },
      },
      settings,
    );
  const isConnecting = readVariable(env, 'NETPLUG_NETWORKING') === 'on';
  const network = isConnecting
    ? connectingNetwork()
    : new PolicyNetwork({ ...networkPorts, store: publishOnce(named.promise, store) }, settings);
  const applySettings = ({ logSeverityScreen, warmPoolSize }: EffectiveSettings): void => {
    setLevel(logLevelOf({ logSeverityScreen }));
    send({ kind: 'settings', settings: { logSeverityScreen, warmPoolSize } });
  };
  const onChange = (changed: EffectiveSettings): void => {
    applySettings(changed);
    if (network instanceof NodeNetwork) network.renew('settings');
    policy.configure(changed);
    sidecars.renewSettings();
  };
  const settingsStore = typha ?? store;
  const agentSettings: SettingsFollower = new SettingsFollower({ ...base, store: settingsStore, env, node, onChange });
  // The agent may have other ones from an earlier process.
  void agentSettings.read.then(() => applySettings(agentSettings.settings));
  void agentSettings.read.then(() => sidecars.renewSettings());
  // A kernel that cannot filter for policies still connects pods.
  using policyFilter = new OpenedOnce(() => NftPolicyFilter.open());
  using endedFlows = new OpenedOnce(() => NftPolicyFilter.open());
  const tableEvents = linuxTableEvents((port) =>
    [tables, policyFilter, endedFlows].some(({ opened }) => opened?.port === port),
  );
  const podLinks: PodLinkFollower = new PodLinkFollower(
    {
      ...base,
      host,
      onChange: ({ byAddress }, areOthersChanged) => {
        policy.useLinks(byAddress);
        if (areOthersChanged) policy.configure(agentSettings.settings);
      },
    },
    interfacePrefixesIn(env, datastore),
  );
  const readHostOf = async (view: PolicyView): Promise<HostReading> =>
    readHost(host, datastoreServers(view, servers.current), podLinks.names);
  const policy: PolicyEnforcement = new PolicyEnforcement(
    {
      ...base,
      policyStore: followed,
      settingsRead: agentSettings.read,
      policyFilter: () => policyFilter.get(),
      compilerFor: (policy, missingLogs) =>
        new RulesetCompiler({
          node,
          logPrefix: policy.policyLogPrefix,
          endpointToHostAction: endpointToHostAction(policy),
          failsafe: failsafePorts(policy),
          missingLogs,
          podLinks: podLinks.names,
        }),
      listEndpoints: async () => listEndpoints(linked),
      listLinks: () => linuxKernel().listHostLinks(),
      readHost: async () => (await readHostOf(policy.state)).links,
      servers: () => servers.current,
      flows: (view, whole) =>
        new DeniedFlows(
          {
            ...base,
            flowTable: () => flowTable.get(),
            judge: async () => {
              const { links, addresses } = await readHostOf(view);
              return flowJudge(view, {
                node,
                hostAddresses: addresses,
                endpointToHost: endpointToHostAction(agentSettings.settings),
                open: withServers(withTunnels(failsafePorts(agentSettings.settings), links.tunnels), links.servers),
                hostEndpoints: await hostEndpointsToward({
                  view,
                  node,
                  links,
                  podLinks: podLinks.names,
                  areSettingsKnown: agentSettings.isRead,
                  host,
                }),
              });
            },
            // One of its own: changes by one must not overlap.
            filter: () => endedFlows.get(),
            whole,
            isKept: () => agentSettings.settings.keepEstablishedFlows,
          },
          node,
          view,
        ),
      guardsKnown: async () => sidecars.guardsKnown,
      saveOn: () => {
        mkdirSync(state, { recursive: true });
        writeFileSync(policyMarker(env), '');
      },
      clearOn: () => rmSync(policyMarker(env), { force: true }),
    },
    { node, policy: agentSettings.settings, start: policySettingIn(env).start },
  );
  using ended = new DisposableStack();
  const hasEnded = new AbortController();
  ended.defer(() => hasEnded.abort());
  const pages = freePagesOf(systemClock.monotonic);
  // While it reads the pods and policies of the cluster, the heap grows in small steps. Afterwards that would only be more collections.
  void policy.switchedOn.then(() => setFlagsFromString('--optimize-for-size'));
  const returnPages = async (): Promise<void> => {
    await policy.policiesRead;
    await releaseAfterStart(pages, { clock: systemClock, isBusy: () => false }, hasEnded.signal);
    setFlagsFromString('--no-optimize-for-size');
  };
  void returnPages();
  const servers: DatastoreServers = new DatastoreServers({
    clock: systemClock,
    log,
    find: async (signal) => serverPorts([...(await store.servers(signal)), ...apiOriginIn(env)]),
    load: () => readText(serverMemory(env)) ?? '',
    save: async (text) => writeFileAtomically(serverMemory(env), { text, mode: 0o600 }),
    onChange: () => {
      policy.noteHostChange();
      if (network instanceof NodeNetwork) network.renew('servers');
    },
  });
  using ruleCounters = new OpenedOnce(() => NftPolicyFilter.open());
  const events = denialEventsIn(env, {
    log,
    datastore,
    transport,
    podUid: (namespace, name) => policy.podUid(namespace, name),
  });
  const flows = new FlowObserver(
    {
      ...base,
      reports: linuxPacketReports(),
      readCounts: async (signal) => ruleCounters.get().counts(POLICY_TABLE, signal),
      flowTable: () => flowTable.get(),
      hostAddresses: async () => (await readHost(host, [])).addresses,
      events,
    },
    node,
    policy,
  );
  const sidecars: SidecarServer = new SidecarServer({
    ...base,
    node,
    state: policy.state,
    whole: async () => policy.whole(),
    policiesRead: policy.policiesRead,
    listPods: async () =>
      listSidecarPods({ attachments: linked.attachments, listLinks: () => linuxKernel().listHostLinks() }),
    watchPods: (onChange) => linked.attachments.watch(onChange),
    listen: (interfaceName, onConnection) =>
      listenInPod(loadAddon(), { interfaceName, name: AGENT_SOCKET }, onConnection),
    useGuards: (changes) => policy.useGuards(changes),
    welcome: () => ({
      release: VERSION,
      trustDomains: agentSettings.isRead ? agentSettings.settings.applicationLayerTrustDomains : [],
      // Until the settings are read, the address of a client proves nothing.
      identity: agentSettings.isRead ? agentSettings.settings.applicationLayerIdentity : 'Certificate',
    }),
    wantedProof: () => agentSettings.settings.applicationLayerProof,
    kept: new GuardFile(join(runDir, 'guards.json'), systemClock),
    onRequests: (endpoint, requests) => flows.noteRequests(endpoint, requests),
  });
  const inspector = hostInspectorIn({ ...base, host, network });
  const lock = openSync(join(state, 'network.lock'), constants.O_RDWR | constants.O_CREAT, 0o600);
  await serveNetworkProcess(network, {
    send,
    onNamed: () => named.resolve(undefined),
    policy,
    flows,
    settings: agentSettings,
    podLinks,
    rates: new RateBounder({
      ...base,
      host,
      rateLimits: kernel,
      burstMs: readVariable(env, 'NETPLUG_BANDWIDTH_BURST_MS'),
    }),
    overruled: new OverruledRoutes({ ...base, host }),
    attachments: attachmentWatchIn(env, { log, kernel, datastore, transport }),
    sidecars,
    tables: new TableFollower(
      {
        ...base,
        events: tableEvents,
        compare: async (names) => {
          const isOfPolicies = names.includes(POLICY_TABLE);
          const repaired = await Promise.all([network.compareTables(names), isOfPolicies && policy.compare()]);
          return repaired.includes(true);
        },
        onOthers: () => inspector.request(FIREWALL_INSPECTION),
        ownProgram: await ownProgramName(),
      },
      PACKET_TABLES,
    ),
    host: inspector,
    threads: new ThreadPoolWatch(systemClock),
    fanOut: typha === undefined ? undefined : { ...systemClock, standing: () => typha.standing },
    findServers: async (signal) => {
      await servers.run(signal);
    },
    relayOwn: async (signal) => {
      if (typha !== undefined) {
        const hasServer = (): boolean => typha.standing.heardMs !== undefined;
        const relayed = {
          ...base,
          follow: (topic: TopicQuery, over: AbortSignal) => typha.followTopics([topic], over),
          hasServer,
          send: (of: FollowTopic, event: RelayedEvent) => send({ kind: 'relayed', of, event }),
          sendState: (states: Readonly<Record<FollowTopic, RelayState>>) => send({ kind: 'relayed-states', states }),
          sendLost: (of: FollowTopic) => send({ kind: 'relayed-lost', of }),
        };
        await relayStoredObjects(relayed, storedObjects(node), signal);
        return;
      }
      await policy.switchedOn;
      if (signal.aborted || datastore.type !== 'orch') return;
      await using api = new OrchApi(findAccess(datastore.orch), { env, transport, watches });
      const relay = async (of: RelayedObjects, kind: RelayedKind): Promise<void> => {
        const sendEvent = (event: RelayedEvent): void => send({ kind: 'relayed', of, event });
        await relayOwnObjects({ ...base, api, send: sendEvent }, { ...kind, node }, signal);
      };
      await Promise.all([
        relay('pods', { collection: PODS, options: RUN_PODS, nodeField: 'nodeName' }),
        relay('endpoints', { collection: ENDPOINTS, options: ALL_ENDPOINTS, nodeField: 'node' }),
      ]);
    },
    onFollowed: (answer) => agent.receive(answer),
    onMessage: (listener) => process.on('message', (message) => listener(message as ToNetwork)), // only the agent sends
    becomeOnly: async (signal) => {
      while (!tryLockFile(lock)) await systemClock.sleep(LOCK_PERIOD_MS, signal);
    },
  });
}
