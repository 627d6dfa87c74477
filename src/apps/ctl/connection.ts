import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf, NetplugError, toNetplugError } from '../../base/errors.ts';
import type { Mode } from '../../base/mode.ts';
import { reportError } from '../../base/report-error.ts';
import type { Store } from '../../datastore/store.ts';
import type { KubeconfigSource } from '../../model/kubeconfig-source.ts';
import { isRecord } from '../../model/read-schema.ts';
import { chooseApi, chooseConnection, type ChosenConnection } from '../../config/choose-connection.ts';
import type { Datastore, OrchSettings } from '../../config/connection.ts';
import {
  type ConnectionFacts,
  type ConnectionUse,
  findKubeconfig,
  type NetconfConnection,
  ownVariables,
} from '../../config/connection-facts.ts';
import { decodeConnection, type DecodedConnection, type RawConnection } from '../../config/decode-connection.ts';
import { type Access, admit, findRefusal, type WriteAccess } from './admit.ts';
import { type ConfFile, readConfFiles } from './doctor/conf-files.ts';
import { readDocuments, refuseProblems } from './documents.ts';
import { readNetconf } from './explain/find-netconf.ts';
import { readSource } from './inputs.ts';
import { namingErrors, originOf } from './named-errors.ts';
import type { Context, Machine, PluginPorts, Status } from './ports.ts';

/**
 * Opens the datastore of the connection, calls `use`, and closes the datastore. Prints warnings to stderr.
 * @throws cli/version-mismatch, store/locked
 */
export async function withStore<T>(
  context: Context,
  access: Access,
  use: (store: Store, datastore: Datastore) => Promise<T>,
): Promise<T> {
  return withConnection(context, { connection: await readConnection(context), access }, use);
}

/** Opens the datastore like `withStore`, by a connection that is chosen already. @throws cli/version-mismatch, store/locked */
export async function withConnection<T>(
  context: Context,
  { connection, access }: { readonly connection: ChosenConnection; readonly access: Access },
  use: (store: Store, datastore: Datastore) => Promise<T>,
): Promise<T> {
  const { datastore, warnings } = connection;
  for (const warning of warnings) context.io.stderr(`warning: ${warning}\n`);
  await using store = await openAdmitted(context, datastore, access);
  return await use(store, datastore);
}

/** Settings of a command that writes; `access` is `write` by default. */
export interface Changing {
  readonly mode: Mode;
  readonly access?: WriteAccess;
}

/**
 * Opens the datastore like `withStore`, for writing. With --dry-run, prints what would refuse the command, continues, and
 * returns the status of that refusal. @throws cli/version-mismatch, store/locked
 */
export async function withStoreToChange(
  context: Context,
  { mode, access = 'write' }: Changing,
  use: (store: Store, datastore: Datastore) => Promise<Status>,
): Promise<Status> {
  if (mode === 'apply') return withStore(context, access, use);
  return withStore(context, 'ask-version', async (store, datastore) => {
    const refusal = await findRefusal(context, store, access);
    const refused = refusal === undefined ? 0 : reportError(context.io, refusal, 'would be refused');
    const status = await use(store, datastore);
    return refused === 0 ? status : refused;
  });
}

/** Opens a datastore and checks that the command may use it. @throws cli/version-mismatch, store/locked */
export async function openAdmitted(context: Context, datastore: Datastore, access: Access): Promise<Store> {
  await using scope = new AsyncDisposableStack();
  const store = scope.use(context.ports.openStore(datastore));
  await namingErrors(originOf(datastore), async () => admit(context, store, access));
  scope.move();
  return store;
}

/** The parts of a context that decide the connection. */
type ConnectionContext = Pick<Context, 'config' | 'env' | 'kubeconfig'> & {
  readonly ports: {
    readonly machine: Pick<Machine, 'serviceAccountDir'>;
    readonly plugin: Pick<PluginPorts, 'confDir'>;
  };
};

/** Purpose for which a command connects, and the network configuration that its `--netconf` names. */
export interface ConnectionPurpose {
  readonly use?: ConnectionUse;
  readonly netconf?: NetconfConnection | undefined;
  /** Folder of the network configurations, unless it is that of the environment. */
  readonly confDir?: string;
}

/**
 * Reads the facts of this machine and decides the connection of the command.
 * @throws netconf/invalid, netconf/needs-orchestrator, store/config-invalid, cli/usage when the file of --config cannot be read
 */
export async function readConnection(
  context: ConnectionContext,
  { use, netconf, confDir }: ConnectionPurpose = {},
): Promise<ChosenConnection> {
  return chooseConnection({ ...(await readConnectionFacts(context, confDir)), netconf }, use);
}

/** Reads the access to the API server of the cluster, where the records are in etcd. @throws netconf/needs-orchestrator */
export async function readApiAccess(context: ConnectionContext): Promise<OrchSettings> {
  return chooseApi(await readConnectionFacts(context));
}

/**
 * Reads the connection from the file of `--config` or from netplug's own variables, never from both: a forgotten
 * variable must not change what the file says. Does not read a kubeconfig of kubectl.
 * @throws netconf/invalid, cli/usage when the file cannot be read
 */
export async function readOwnConnection({ config, env }: Pick<Context, 'config' | 'env'>): Promise<DecodedConnection> {
  const raw = config === undefined ? ownVariables(env) : fromFile(await readSource(config));
  return decodeConnection(raw, { config, kubeconfig: undefined });
}

/** Returns the kubeconfig whose contexts `--context` chooses from; undefined when there is none. */
export async function readKubeconfigSource({
  env,
  kubeconfig: flags,
}: Pick<Context, 'env' | 'kubeconfig'>): Promise<KubeconfigSource | undefined> {
  return findKubeconfig({ flags, env, homeFile: await findHomeFile(env) });
}

/** Reads what the choice of a connection depends on. @throws netconf/invalid, cli/usage */
export async function readConnectionFacts(
  context: ConnectionContext,
  folder = context.ports.plugin.confDir,
): Promise<ConnectionFacts> {
  const { config, env, kubeconfig: flags } = context;
  const files = await readConfFiles(folder).catch(ifUnreadable);
  const own = files?.find(({ isOurs }) => isOurs);
  return {
    flags,
    config: config === undefined ? undefined : { file: config, raw: fromFile(await readSource(config)) },
    netconf: undefined,
    env,
    node: {
      folder,
      netconf: own === undefined ? undefined : { file: own.path, datastore: await datastoreOf(own) },
      unreadable: files?.filter(({ text }) => text === undefined).map(({ path }) => path) ?? [folder],
    },
    hasAccount: await hasPodAccount(context),
    homeFile: await findHomeFile(env),
  };
}

/** Returns undefined for a folder that this user may not read. */
function ifUnreadable(cause: unknown): undefined {
  if (errnoOf(cause) === undefined) throw cause;
}

/** Returns the datastore of a network configuration of netplug, or what is wrong with the file. */
async function datastoreOf({ path, netconf }: ConfFile): Promise<Datastore | NetplugError> {
  if (netconf !== undefined) return netconf.datastore;
  return readNetconf(path).then(({ config }) => config.datastore, toNetplugError);
}

async function findHomeFile({ HOME: home = '' }: Context['env']): Promise<ConnectionFacts['homeFile']> {
  if (home === '') return undefined;
  const path = join(home, '.kube/config');
  return { path, exists: await exists(path) };
}

async function hasPodAccount({ env, ports }: Pick<ConnectionContext, 'env' | 'ports'>): Promise<boolean> {
  if ((env['KUBERNETES_SERVICE_HOST'] ?? '') === '') return false;
  return exists(join(ports.machine.serviceAccountDir, 'token'));
}

/** Reports whether there is a file of that path, also one that this user may not reach. */
async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    (cause: unknown) => !['ENOENT', 'ENOTDIR'].includes(errnoOf(cause) ?? ''),
  );
}

/** Returns the keys of a `--config` file in lower case. @throws netconf/invalid */
export function fromFile(source: { readonly name: string; readonly text: string }): RawConnection {
  const { documents, problems } = readDocuments(source, 'netconf/invalid');
  refuseProblems(problems, `file "${source.name}"`, 'netconf/invalid');
  const value = documents[0]?.value;
  // The value is not quoted: a file given by mistake may hold a secret.
  if (!isRecord(value)) {
    throw new NetplugError(
      'netconf/invalid',
      `Cannot use file "${source.name}": found ${Array.isArray(value) ? 'array' : typeof value}, allowed is an object`,
      {
        hint: `Write keys such as kv_endpoints, as YAML or JSON`,
      },
    );
  }
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [/^[A-Z_]+$/.test(key) ? key.toLowerCase() : key, each]),
  );
}
