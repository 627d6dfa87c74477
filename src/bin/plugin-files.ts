import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CertificateCopies } from '../apps/agent/certificate-copies.ts';
import { CniCredentials } from '../apps/agent/cni-credentials.ts';
import { ConflistInstaller } from '../apps/agent/conflist-installer.ts';
import { MountedFolders } from '../apps/agent/mounted-folders.ts';
import { OwnToken } from '../apps/agent/own-token.ts';
import type { RetryPorts } from '../base/back-off.ts';
import type { Log } from '../base/log.ts';
import { aborted } from '../base/until-aborted.ts';
import type { Datastore } from '../config/connection.ts';
import { readVariable } from '../config/environment.ts';
import { AgentFiles } from '../install/agent-files.ts';
import { findOtherFolders, findStaleFolders, isProgramMissing } from '../install/host/runtime-folders.ts';
import { KUBECONFIG_NAME } from '../install/places.ts';
import type { OrchAccess } from '../kube/access.ts';
import { loadSession } from '../kube/load-session.ts';
import { OrchApi } from '../kube/orch-api.ts';
import { requestToken } from '../kube/token-request.ts';
import type { Transport } from '../kube/transport.ts';
import { CNI_TOKEN_NAME } from '../model/cni-token.ts';
import { type NodeProblem, PLUGIN_PROBLEMS, asNodeProblems, problemSentence } from '../model/node-report.ts';
import { agentAccessIn } from './agent-access.ts';
import { orchestratorIn } from './open-orch.ts';
import { stateDir } from './registration.ts';

const TOKEN_SECONDS = 24 * 60 * 60;

/** The files that the agent writes for the plugin, as the environment asks for. */
export interface PluginFiles {
  /** Puts in place what the agent itself needs before it connects. @throws install/failed */
  readonly prepare: (signal: AbortSignal) => Promise<void>;
  /** Runs until the signal aborts. */
  readonly run: (signal: AbortSignal) => Promise<void>;
  /** Returns why the plugin cannot work, a sentence each. */
  readonly failures: () => readonly string[];
  /** Returns what is not in place yet, a sentence each. */
  readonly pending: () => readonly string[];
  /** Returns what else an administrator must act on, a sentence each. */
  readonly warnings: () => readonly string[];
  /** Returns both. */
  readonly problems: () => readonly NodeProblem[];
  /** Seconds until the token of the plugin expires; undefined without one. */
  readonly tokenSecondsLeft: () => number | undefined;
}

export interface PluginFilesPorts extends RetryPorts {
  readonly log: Log;
  readonly transport: Transport;
  /** Returns why calls cannot be served or the network does not work, a sentence each. */
  readonly obstacles: () => Promise<readonly string[]>;
  /** Called when the folders of the runtime are no longer those that are mounted here. */
  readonly onFolderReplaced: (reason: string) => void;
}

/** Returns what writes conflist and credentials of the plugin, where the environment asks for them, and looks at the agent's own. */
export function pluginFilesIn(
  env: NodeJS.ProcessEnv,
  ports: PluginFilesPorts,
  { node, datastore }: { readonly node: string; readonly datastore: Datastore },
): PluginFiles {
  const files = new AgentFiles(stateDir(env), (warning) =>
    ports.log.warning('record problem found', { problem: warning }),
  );
  const confDir = readVariable(env, 'NETPLUG_CNI_CONF_DIR');
  const account = readVariable(env, 'NETPLUG_CNI_ACCOUNT');
  const source = readVariable(env, 'NETPLUG_CONFLIST_FILE');
  const confName = readVariable(env, 'NETPLUG_CONFLIST_NAME');
  const binDir = readVariable(env, 'NETPLUG_CNI_BIN_DIR');
  const credentials =
    account === ''
      ? undefined
      : credentialsIn(env, { ...ports, files }, { account, node, confDir, access: accessIn(env, datastore) });
  const obstacles = async (): Promise<readonly string[]> => [
    ...(await ports.obstacles()),
    ...(credentials?.obstacle === undefined ? [] : [credentials.obstacle]),
  ];
  const mounted = new MountedFolders({
    find: async () => findStaleFolders('/proc', { confDir, binDir }),
    onReplaced: ports.onFolderReplaced,
  });
  const otherFolders = async (): Promise<readonly NodeProblem[]> => [
    ...(await findOtherFolders('/proc', { confDir, binDir })),
    ...(await mounted.look()),
  ];
  const certificates = certificatesIn(env, { ...ports, files }, datastore);
  const ownToken = datastore.type === 'orch' ? ownTokenIn(env, ports, { node, datastore }) : undefined;
  const conflist =
    source === ''
      ? undefined
      : new ConflistInstaller(
          {
            ...ports,
            files,
            obstacles,
            findOtherFolders: otherFolders,
            isProgramMissing: async (program) => isProgramMissing('/proc', binDir, program),
          },
          { source, node, confDir, confName, binDir },
        );
  const failures = (): readonly string[] =>
    [certificates?.problem ?? [], credentials?.obstacle ?? [], conflist?.problem ?? []].flat();
  return {
    prepare: async (signal) => certificates?.copy(signal),
    run: async (signal) => {
      if (credentials !== undefined || conflist !== undefined) mkdirSync(confDir, { recursive: true });
      const parts = [certificates, credentials, conflist, ownToken].flatMap((part) => part ?? []);
      await Promise.all([...parts.map(async (part) => part.run(signal)), aborted(signal)]);
    },
    failures,
    pending: () => (conflist?.isPending === true ? ['the conflist is not installed yet'] : []),
    warnings: () => [
      ...[ownToken, credentials].flatMap((part) => part?.warning ?? []),
      ...(conflist?.faults ?? []).map(problemSentence),
    ],
    problems: () => [
      ...asNodeProblems(PLUGIN_PROBLEMS.unusable, failures()),
      ...(conflist?.faults ?? []),
      ...asNodeProblems(PLUGIN_PROBLEMS.token, [ownToken?.warning ?? [], credentials?.warning ?? []].flat()),
    ],
    tokenSecondsLeft: () => credentials?.secondsLeft(),
  };
}

/** The agent with etcd writes no object that an admission policy limits. */
function ownTokenIn(
  env: NodeJS.ProcessEnv,
  ports: PluginFilesPorts,
  { node, datastore }: { readonly node: string; readonly datastore: Datastore },
): OwnToken {
  const access = accessIn(env, datastore);
  const inputs = { env, now: () => ports.clock.now() };
  const readToken = async (signal: AbortSignal): Promise<string | undefined> => {
    const { credential } = await loadSession(access, inputs, signal);
    return credential.kind === 'token' ? credential.token : undefined;
  };
  return new OwnToken({ ...ports, readToken }, node);
}

function certificatesIn(
  env: NodeJS.ProcessEnv,
  ports: PluginFilesPorts & { readonly files: AgentFiles },
  datastore: Datastore,
): CertificateCopies | undefined {
  const from = readVariable(env, 'NETPLUG_KV_CERTIFICATES_FROM');
  const certificate = datastore.type === 'kvv3' ? datastore.connection.certFile : undefined;
  if (from === '' || certificate === undefined) return undefined;
  const to = dirname(certificate);
  mkdirSync(to, { recursive: true, mode: 0o700 });
  return new CertificateCopies(ports, { from, to });
}

function credentialsIn(
  env: NodeJS.ProcessEnv,
  ports: PluginFilesPorts & { readonly files: AgentFiles },
  { account, node, confDir, access }: Record<'account' | 'node' | 'confDir', string> & { readonly access: OrchAccess },
): CniCredentials {
  const { transport } = ports;
  const namespace = readVariable(env, 'NETPLUG_NAMESPACE');
  const kubeconfigPath = join(confDir, KUBECONFIG_NAME);
  const inputs = { env, now: () => ports.clock.now() };
  return new CniCredentials(
    {
      ...ports,
      readServer: async (signal) => {
        const { server, tls, credential } = await loadSession(access, inputs, signal);
        const ownToken = credential.kind === 'token' ? credential.token : '';
        return { server: server.origin, caPem: tls.ca, ownToken };
      },
      requestToken: async (signal) => {
        await using api = new OrchApi(access, { env, transport });
        return await requestToken(api, { namespace, name: account, node, lifetimeSeconds: TOKEN_SECONDS }, signal);
      },
      isAccepted: async (signal) => {
        await using api = new OrchApi({ from: 'file', path: kubeconfigPath }, { env });
        return await api.acceptsCredential(signal);
      },
    },
    { account: `${namespace}/${account}`, kubeconfigPath, tokenPath: join(stateDir(env), CNI_TOKEN_NAME) },
  );
}

/** @throws netconf/needs-orchestrator */
function accessIn(env: NodeJS.ProcessEnv, datastore: Datastore): OrchAccess {
  return agentAccessIn(env)(datastore.type === 'orch' ? datastore.orch : orchestratorIn(env));
}
