import { NetplugError } from '../base/errors.ts';
import type { Mode } from '../base/mode.ts';
import { emptyFindings, type Problem, problemsError } from '../base/problem.ts';
import type { Store } from '../datastore/store.ts';
import { isRecord, readEntries } from '../model/read-schema.ts';
import type { Datastore, OrchSettings } from '../netconf/connection.ts';
import { COMMON_FIELDS } from '../netconf/fields.ts';
import { decideConnection } from '../netconf/kv.ts';
import { checkKeys } from '../netconf/unknown-keys.ts';
import { type Access, admit, findRefusal, type WriteAccess } from './admit.ts';
import { readDocuments } from './documents.ts';
import { readSource } from './inputs.ts';
import type { Context, Env, Status } from './ports.ts';
import { reportError } from './report-error.ts';

type Raw = Readonly<Record<string, unknown>>;
type Key = (typeof CONNECTION_KEYS)[number];

/** The netconf names of the options of a connection; in capitals they are environment variables. */
export const CONNECTION_KEYS = [
  'datastore_type',
  'kv_endpoints',
  'kv_discovery_srv',
  'kv_key_file',
  'kv_cert_file',
  'kv_ca_cert_file',
  'kv_authority',
  'kv_scheme',
] as const;
const ORCH_KEYS = ['orchconfig', 'orch_api_root'];

/**
 * Opens the datastore that file or environment name for what the command is going to do there, and closes it again.
 * Warnings go to stderr. @throws cli/version-mismatch, store/locked
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

/** How a command writes; `write` unless it deals with the lock. */
export interface Changing {
  readonly mode: Mode;
  readonly access?: WriteAccess;
}

/**
 * Opens the datastore like `withStore`, to change something there. In a rehearsal, what would refuse the command is told
 * beforehand, and its status is that of the command. @throws cli/version-mismatch, store/locked
 */
export async function withStoreToChange(
  context: Context,
  { mode, access = 'write' }: Changing,
  use: (store: Store, datastore: Datastore) => Promise<Status>,
): Promise<Status> {
  if (mode === 'carry-out') return withStore(context, access, use);
  return withStore(context, 'ask-version', async (store, datastore) => {
    const refusal = await findRefusal(context, store, access);
    const refused = refusal === undefined ? 0 : reportError(context.io, refusal, 'would be refused');
    const status = await use(store, datastore);
    return refused === 0 ? status : refused;
  });
}

/** Opens a datastore for what the command is going to do there. @throws cli/version-mismatch, store/locked */
export async function openAdmitted(context: Context, datastore: Datastore, access: Access): Promise<Store> {
  await using scope = new AsyncDisposableStack();
  const store = scope.use(context.ports.openStore(datastore));
  await admit(context, store, access);
  scope.move();
  return store;
}

/**
 * The connection from the file of `--config`, else from the environment; never from both, so that a forgotten variable
 * cannot bend what a file says. The rules are those of the network configuration.
 * @throws netconf/invalid, cli/usage when the file cannot be read
 */
export async function readConnection({ config, env }: Pick<Context, 'config' | 'env'>): Promise<{
  readonly datastore: Datastore;
  readonly warnings: readonly string[];
}> {
  const findings = emptyFindings();
  const raw = config === undefined ? fromEnv(env) : fromFile(await readSource(config));
  if (config !== undefined) {
    checkKeys(raw, { keys: [...CONNECTION_KEYS, ...ORCH_KEYS, 'orch'], path: '', strictness: 'ours-alone' }, findings);
  }
  const entries = pick(COMMON_FIELDS);
  const { values } = readEntries(entries, raw, { path: '', code: 'netconf/invalid', problems: findings.problems });
  const datastore: Datastore =
    values.datastore_type === 'orch'
      ? { type: 'orch', orch: orchAccess(raw, findings.problems) }
      : { type: 'kvv3', connection: decideConnection(values, findings) };
  if (findings.problems.length === 0) {
    return { datastore, warnings: findings.warnings.map(({ message }) => message) };
  }
  const where = config === undefined ? 'the environment' : `file "${config}"`;
  const problems = findings.problems.map((problem) =>
    config === undefined ? { ...problem, path: problem.path.toUpperCase() } : problem,
  );
  throw problemsError(`the connection in ${where}`, problems, 'netconf/invalid');
}

/** Whether somebody said how to reach the datastore; otherwise it is looked for where it is by default. */
export function hasConnection({ config, env }: Pick<Context, 'config' | 'env'>): boolean {
  return config !== undefined || Object.keys(fromEnv(env)).length > 0;
}

/** An empty variable is the same as none. */
function fromEnv(env: Env): Raw {
  return Object.fromEntries(
    [...CONNECTION_KEYS, ...ORCH_KEYS].flatMap((key) => {
      const value = env[key.toUpperCase()];
      return value === undefined || value === '' ? [] : [[key, value]];
    }),
  );
}

/** The keys of a `--config` file in small letters. @throws netconf/invalid */
export function fromFile(source: { readonly name: string; readonly text: string }): Raw {
  const { documents, problems } = readDocuments(source, 'netconf/invalid');
  if (problems.length > 0) {
    const placed = problems.map(({ place, ...problem }) => ({ ...problem, path: place }));
    throw problemsError(`file "${source.name}"`, placed, 'netconf/invalid');
  }
  const value = documents[0]?.value;
  // Not quoted: a file named by mistake may hold a secret.
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

function pick(fields: typeof COMMON_FIELDS): Pick<typeof COMMON_FIELDS, Key> {
  const { datastore_type, kv_endpoints, kv_discovery_srv, kv_key_file } = fields;
  const { kv_cert_file, kv_ca_cert_file, kv_authority, kv_scheme } = fields;
  return {
    datastore_type,
    kv_endpoints,
    kv_discovery_srv,
    kv_key_file,
    kv_cert_file,
    kv_ca_cert_file,
    kv_authority,
    kv_scheme,
  };
}

/** The keys stand alone here, or in a section as in the network configuration. */
function orchAccess(raw: Raw, problems: Problem[]): OrchSettings {
  const section = isRecord(raw['orch']) ? raw['orch'] : {};
  const orch = { orchconfig: raw['orchconfig'], orch_api_root: raw['orch_api_root'], ...section };
  const { values } = readEntries(
    { orch: COMMON_FIELDS.orch },
    { orch },
    { path: '', code: 'netconf/invalid', problems },
  );
  return { orchconfig: values.orch?.orchconfig, apiRoot: values.orch?.orch_api_root, nodeName: undefined };
}
