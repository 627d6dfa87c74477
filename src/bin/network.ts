import { constants, mkdirSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { type FromNetwork, isSharedQuery, type ToNetwork } from '../apps/agent/network-channel.ts';
import { NodeNetwork } from '../apps/agent/network/node-network.ts';
import { DeniedFlows } from '../apps/agent/network/denied-flows.ts';
import { FlowObserver } from '../apps/agent/network/flow-observer.ts';
import { SettingsFollower } from '../apps/agent/network/follow-settings.ts';
import { flowJudge } from '../apps/agent/network/judge-flow.ts';
import { hostEndpointsToward } from '../apps/agent/network/host-endpoints-toward.ts';
import { readHost, readHostLinks } from '../apps/agent/network/read-host-links.ts';
import { PolicyEnforcement } from '../apps/agent/network/policy-enforcement.ts';
import { listEndpoints } from '../apps/agent/network/read-attachments.ts';
import { relayPods } from '../apps/agent/network/relay-pods.ts';
import { serveNetworkProcess } from '../apps/agent/network/serve-network.ts';
import { registerName } from '../apps/agent/register-node.ts';
import { writeFileAtomically } from '../base/atomic-file.ts';
import { systemClock } from '../base/clock.ts';
import { isNetplugError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { OpenedOnce } from '../base/opened-once.ts';
import { systemRandom } from '../base/random.ts';
import { type EffectiveSettings, endpointToHostAction } from '../config/agent-settings.ts';
import { readOwnVariables } from '../config/choose-connection.ts';
import { readVariable } from '../config/environment.ts';
import { AttachmentFiles } from '../cni/attachment-files.ts';
import { failureFacts } from '../cni/error-output.ts';
import { FollowClient } from '../datastore/follow-client.ts';
import { JoinedFollow } from '../datastore/joined-follow.ts';
import { tryLockFile } from '../dataplane/linux/file-lock.ts';
import { dieWithParent } from '../dataplane/linux/lifetime.ts';
import { linuxHostNetwork } from '../dataplane/linux/host-network.ts';
import { linuxKernel } from '../dataplane/linux/linux-kernel.ts';
import { linuxPacketReports } from '../dataplane/linux/linux-packet-reports.ts';
import { LinuxFlowTable } from '../dataplane/linux/linux-flow-table.ts';
import { NftPacketFilter } from '../dataplane/linux/nft-packet-filter.ts';
import { NftPolicyFilter } from '../dataplane/linux/nft-policy-filter.ts';
import { Http2Transport } from '../kube/http2-transport.ts';
import { OrchApi } from '../kube/orch-api.ts';
import { type RelayedEvent, SharedWatches } from '../kube/shared-watches.ts';
import { agentAccessIn } from './agent-access.ts';
import { AGENT_LOG } from './agent-log.ts';
import { attachedIn } from './attached.ts';
import { birdFolder, birdIn } from './bird-in.ts';
import { denialEventsIn } from './denial-events.ts';
import { networkSettingsIn } from './network-settings.ts';
import { nodeNameIn } from './node-name-in.ts';
import { openLog } from './open-log.ts';
import { openStoreIn } from './open-store.ts';
import { readSecretIn } from './read-secret.ts';
import { POLICY_TABLE } from '../policy/ruleset/policy-ruleset.ts';
import { failsafePorts, withTunnels } from '../policy/open-ports.ts';
import { RulesetCompiler } from '../policy/ruleset/ruleset-compiler.ts';
import { policySettingIn } from './policy-setting.ts';
import { attachmentFolder, policyMarker, stateDir } from './registration.ts';

const LOCK_PERIOD_MS = 10;

/** Runs the network of the node for the agent that started this process, until the agent stops it or exits. */
export async function runNetwork(): Promise<void> {
  const log = openLog(AGENT_LOG);
  // Only the agent stops this process; service managers and terminals send signals to all processes.
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(name, () => undefined);
  process.once('disconnect', () => process.exit());
  try {
    // A process that hangs does not notice the end of its channel, and would keep its lock from the next one.
    dieWithParent();
    await run(process.env, log);
    process.exitCode = 0;
  } catch (cause) {
    if (!isNetplugError(cause, 'agent/address-conflict')) log.error('network failed', failureFacts(cause));
  }
  process.removeAllListeners('disconnect');
  process.disconnect();
}

async function run(env: NodeJS.ProcessEnv, log: Log): Promise<void> {
  const node = nodeNameIn(env);
  const { datastore } = readOwnVariables(env);
  const settings = networkSettingsIn(env, node);
  const state = stateDir(env);
  using transport = new Http2Transport();
  const findAccess = agentAccessIn(env);
  const watches = new SharedWatches();
  await using store = openStoreIn(env, {
    log,
    findAccess,
    transport,
    watches,
    // The agent asks: both fail to follow the cluster when the API serves it no more.
    isProbed: false,
  })(datastore);
  const send = (message: FromNetwork): void => void process.send?.(message);
  const agent = new FollowClient(send);
  // On etcd a stream costs the same with more ranges. The API has a watch for each kind.
  const followed = datastore.type === 'orch' ? new JoinedFollow({ shared: agent, own: store }, isSharedQuery) : store;
  // A temporary file of a killed agent is removed with the folder, at the next boot or by a purge.
  const filter = new NftPacketFilter({ folder: ownFolder(env) });
  const linked = {
    attachments: new AttachmentFiles(attachmentFolder(env)),
    listAttached: attachedIn(linuxKernel()),
  };
  const host = linuxHostNetwork({ vxlanChecksums: settings.vxlanChecksums, recordFolder: state });
  const network = new NodeNetwork(
    {
      clock: systemClock,
      random: systemRandom,
      log,
      store,
      followed,
      host,
      filter,
      bird: birdIn(env),
      birdLog: join(birdFolder(env), 'bird.log'),
      readSecret: readSecretIn(env, datastore, transport),
      ...linked,
      register: async ({ mtu }) => {
        mkdirSync(state, { recursive: true });
        await writeFileAtomically(join(state, 'mtu'), {
          text: mtu === undefined ? '' : `${String(mtu)}\n`,
          mode: 0o644,
        });
        await registerName(join(state, 'nodename'), node);
      },
    },
    settings,
  );
  const hostAddresses = (): ReadonlySet<string> =>
    new Set(Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address)));
  const base = { clock: systemClock, random: systemRandom, log };
  const onChange = (changed: EffectiveSettings): void => policy.configure(changed);
  const agentSettings = new SettingsFollower({ ...base, store, env, node, onChange });
  // A kernel that cannot filter for policies still connects pods.
  using policyFilter = new OpenedOnce(() => NftPolicyFilter.open());
  using flowTable = new OpenedOnce(() => LinuxFlowTable.open());
  const policy = new PolicyEnforcement(
    {
      ...base,
      policyStore: followed,
      settingsRead: agentSettings.read,
      policyFilter: () => policyFilter.get(),
      compilerFor: (policy) =>
        new RulesetCompiler({
          node,
          logPrefix: policy.policyLogPrefix,
          endpointToHostAction: endpointToHostAction(policy),
          failsafe: failsafePorts(policy),
        }),
      listEndpoints: async () => listEndpoints(linked),
      readHost: async () => readHostLinks(host),
      flows: (view, whole) =>
        new DeniedFlows(
          {
            ...base,
            flowTable: () => flowTable.get(),
            judge: async (flows) => {
              const { links, addresses } = await readHost(host);
              return flowJudge(view, flows, {
                node,
                hostAddresses: addresses,
                endpointToHost: endpointToHostAction(agentSettings.settings),
                open: withTunnels(failsafePorts(agentSettings.settings), links.tunnels),
                findHostEndpoints: async (remotes) =>
                  hostEndpointsToward(remotes, { view, node, links, areSettingsKnown: agentSettings.isRead, host }),
              });
            },
            whole,
            isKept: () => agentSettings.settings.keepEstablishedFlows,
          },
          node,
          view,
        ),
      rememberOn: () => {
        mkdirSync(state, { recursive: true });
        writeFileSync(policyMarker(env), '');
      },
      forgetOn: () => rmSync(policyMarker(env), { force: true }),
    },
    { node, policy: agentSettings.settings, start: policySettingIn(env, datastore).start },
  );
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
      hostAddresses,
      events,
    },
    node,
    policy,
  );
  const lock = openSync(join(state, 'network.lock'), constants.O_RDWR | constants.O_CREAT, 0o600);
  await serveNetworkProcess(network, {
    send,
    policy,
    flows,
    settings: agentSettings,
    relayPods: async (signal) => {
      await policy.switchedOn;
      if (signal.aborted || datastore.type !== 'orch') return;
      await using api = new OrchApi(findAccess(datastore.orch), { env, transport, watches });
      const sendPods = (event: RelayedEvent): void => send({ kind: 'pods', event });
      await relayPods({ ...base, api, send: sendPods }, node, signal);
    },
    onFollowed: (answer) => agent.receive(answer),
    onMessage: (listener) => process.on('message', (message) => listener(message as ToNetwork)), // only the agent sends
    becomeOnly: async (signal) => {
      while (!tryLockFile(lock)) await systemClock.sleep(LOCK_PERIOD_MS, signal);
    },
  });
}

/** Returns the folder for files that need not survive a reboot; creates it when it is missing. */
function ownFolder(env: NodeJS.ProcessEnv): string {
  const folder = readVariable(env, 'NETPLUG_RUN_DIR');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return folder;
}
