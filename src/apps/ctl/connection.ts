import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { NetplugError } from '../../base/errors.ts';
import type { Mode } from '../../base/mode.ts';
import { problemsError } from '../../base/problem.ts';
import { reportError } from '../../base/report-error.ts';
import type { Store } from '../../datastore/store.ts';
import type { KubeconfigSource } from '../../model/kubeconfig-source.ts';
import { isRecord } from '../../model/read-schema.ts';
import { chooseConnection, findKubeconfig, hasFlags, ownVariables } from '../../config/choose-connection.ts';
import type { Datastore } from '../../config/connection.ts';
import { decodeConnection, type DecodedConnection, type RawConnection } from '../../config/decode-connection.ts';
import { type Access, admit, findRefusal, type WriteAccess } from './admit.ts';
import { readDocuments } from './documents.ts';
import { readSource } from './inputs.ts';
import type { Context, Machine, Status } from './ports.ts';

/**
 * Opens the datastore of the connection, calls `use`, and closes the datastore. Prints warnings to stderr.
 * @throws cli/version-mismatch, store/locked
 */
export async function withStore<T>(
  context: Context,
  access: Access,
  use: (store: Store, datastore: Datastore) => Promise<T>,
): Promise<T> {
  const { datastore, warnings } = await readConnection(context);
  for (const warning of warnings) context.io.stderr(`warning: ${warning}\n`);
  await using store = await openAdmitted(context, datastore, access);
  return await use(store, datastore);
}

/** How a command writes; `access` is `write` by default. */
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
  await admit(context, store, access);
  scope.move();
  return store;
}

/** The parts of a context that decide the connection. */
type ConnectionInputs = Pick<Context, 'config' | 'env' | 'kubeconfig'> & {
  readonly ports: { readonly machine: Pick<Machine, 'serviceAccountDir'> };
};

export interface Connection extends DecodedConnection {
  /** The flag, file or variable that names the datastore. */
  readonly from: string;
}

/**
 * Reads the connection of netplugctl: from the file of `--config` alone, otherwise as `chooseConnection` decides. The
 * rules are those of the network configuration.
 * @throws netconf/invalid, store/config-invalid, cli/usage when the file cannot be read
 */
export async function readConnection(context: ConnectionInputs): Promise<Connection> {
  const { config, env, kubeconfig: flags } = context;
  if (config !== undefined) return readOwnConnection(context);
  const [homeFile, isInCluster] = [await findHomeFile(env), await hasPodAccount(context)];
  const { raw, kubeconfig, from } = chooseConnection({ flags, env, homeFile, isInCluster });
  return { ...decodeConnection(raw, { config, kubeconfig }), from };
}

/**
 * Reads the connection from the file of `--config` or from netplug's own variables, never from both: a forgotten
 * variable must not change what the file says. Does not read a kubeconfig of kubectl.
 * @throws netconf/invalid, cli/usage when the file cannot be read
 */
export async function readOwnConnection({ config, env }: Pick<Context, 'config' | 'env'>): Promise<Connection> {
  const raw = config === undefined ? ownVariables(env) : fromFile(await readSource(config));
  return { ...decodeConnection(raw, { config, kubeconfig: undefined }), from: config ?? 'the environment' };
}

/** Returns the kubeconfig whose contexts `--context` chooses from; undefined when there is none. */
export async function readKubeconfigSource({
  env,
  kubeconfig: flags,
}: Pick<Context, 'env' | 'kubeconfig'>): Promise<KubeconfigSource | undefined> {
  return findKubeconfig({ flags, env, homeFile: await findHomeFile(env) });
}

/**
 * Reports whether a flag or a variable of netplug names the datastore. `KUBECONFIG` does not count: it is there for
 * kubectl, and on a node the network configuration takes precedence over it.
 */
export function hasConnection({ config, env, kubeconfig }: Pick<Context, 'config' | 'env' | 'kubeconfig'>): boolean {
  return config !== undefined || hasFlags(kubeconfig) || Object.keys(ownVariables(env)).length > 0;
}

async function findHomeFile({ HOME: home = '' }: Context['env']): Promise<string | undefined> {
  const path = join(home, '.kube/config');
  return home !== '' && (await exists(path)) ? path : undefined;
}

async function hasPodAccount({ env, ports }: Pick<ConnectionInputs, 'env' | 'ports'>): Promise<boolean> {
  if ((env['KUBERNETES_SERVICE_HOST'] ?? '') === '') return false;
  return exists(join(ports.machine.serviceAccountDir, 'token'));
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** Returns the keys of a `--config` file in lower case. @throws netconf/invalid */
export function fromFile(source: { readonly name: string; readonly text: string }): RawConnection {
  const { documents, problems } = readDocuments(source, 'netconf/invalid');
  if (problems.length > 0) {
    const placed = problems.map(({ place, ...problem }) => ({ ...problem, path: place }));
    throw problemsError(`file "${source.name}"`, placed, 'netconf/invalid');
  }
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
