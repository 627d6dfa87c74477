import * as v from 'valibot';
import { reasonOf } from '../base/errors.ts';
import { accessInvalid } from './access.ts';

const text = v.string('a string');
/** The orchestrator's tools write `null` for an empty list and for an empty field. */
const maybeText = v.nullish(text);
const pairs = v.nullish(v.array(v.looseObject({ name: text, value: text }, 'an object with name and value')));

const Cluster = v.looseObject(
  {
    server: text,
    'certificate-authority': maybeText,
    'certificate-authority-data': maybeText,
    'insecure-skip-tls-verify': v.nullish(v.boolean('true or false')),
    'tls-server-name': maybeText,
    'proxy-url': maybeText,
  },
  'an object',
);

const Exec = v.looseObject(
  {
    apiVersion: v.picklist(
      ['client.authentication.k8s.io/v1', 'client.authentication.k8s.io/v1beta1'],
      '"client.authentication.k8s.io/v1" or "client.authentication.k8s.io/v1beta1"',
    ),
    command: v.pipe(text, v.nonEmpty('the name of a program')),
    args: v.nullish(v.array(text, 'an array of strings')),
    env: pairs,
    provideClusterInfo: v.nullish(v.boolean('true or false')),
  },
  'an object',
);

const User = v.looseObject(
  {
    token: maybeText,
    tokenFile: maybeText,
    username: maybeText,
    password: maybeText,
    'client-certificate': maybeText,
    'client-certificate-data': maybeText,
    'client-key': maybeText,
    'client-key-data': maybeText,
    exec: v.nullish(Exec),
    'auth-provider': v.nullish(v.unknown()),
  },
  'an object',
);

const listOf = <S extends v.GenericSchema>(entry: 'cluster' | 'user' | 'context', schema: S) =>
  v.nullish(v.array(v.looseObject({ name: text, [entry]: v.nullish(schema) }, `an object with name and ${entry}`)));

const Context = v.looseObject({ cluster: text, user: v.optional(text, '') }, 'an object');

const Config = v.looseObject(
  {
    'current-context': v.nullish(text),
    clusters: listOf('cluster', v.unknown()),
    users: listOf('user', v.unknown()),
    contexts: listOf('context', v.unknown()),
  },
  'an object, as the tools of the orchestrator write it',
);

export type ClusterEntry = v.InferOutput<typeof Cluster>;
export type UserEntry = v.InferOutput<typeof User>;
export type ExecEntry = v.InferOutput<typeof Exec>;

type ConfigEntry = v.InferOutput<typeof Config>;

/** One file of a kubeconfig. */
export interface KubeconfigFile {
  readonly path: string;
  readonly content: string;
}

/** The file that an entry comes from, which its relative paths start at, and the field in that file. */
export interface KubeconfigOrigin {
  readonly path: string;
  readonly field: string;
}

/** Cluster and user of a context, each with its origin: they can come from different files. */
export interface KubeconfigChoice {
  /** Name of the context. */
  readonly context: string;
  readonly cluster: ClusterEntry;
  readonly user: UserEntry;
  readonly clusterOrigin: KubeconfigOrigin;
  readonly userOrigin: KubeconfigOrigin;
}

/**
 * Returns cluster and user of `contextName`, or of the current context. Files are merged as kubectl merges them: the
 * first file that sets the current context or has an entry of a name wins, and entries are never mixed.
 * @throws store/config-invalid naming file, field and reason
 */
export async function parseKubeconfig(
  files: readonly KubeconfigFile[],
  contextName?: string,
): Promise<KubeconfigChoice> {
  const configs = await parseAll(files);
  const context = findContext(configs, contextName);
  const { cluster, user } = check(Context, context.value, context);
  const { path, field } = context;
  const chosen = find(configs, 'cluster', { path, name: cluster, why: `${field}.cluster` });
  const account =
    user === ''
      ? { value: {}, path, field: 'users' }
      : find(configs, 'user', { path, name: user, why: `${field}.user` });
  return {
    context: String(context.name),
    cluster: check(Cluster, chosen.value, chosen),
    user: check(User, account.value, account),
    clusterOrigin: { path: chosen.path, field: chosen.field },
    userOrigin: { path: account.path, field: account.field },
  };
}

/** Returns the names of all contexts. @throws store/config-invalid */
export async function listContexts(files: readonly KubeconfigFile[]): Promise<readonly string[]> {
  return namesOf(entriesOf(await parseAll(files), 'context'));
}

export function wrong(path: string, what: string, cause?: unknown): ReturnType<typeof accessInvalid> {
  return accessInvalid(
    `file "${path}": ${what}`,
    'Correct the file, or name another one: orch.orchconfig for the plugin, KUBECONFIG or --kubeconfig for netplugctl',
    cause,
  );
}

interface ParsedFile {
  readonly path: string;
  readonly config: ConfigEntry;
}

async function parseAll(files: readonly KubeconfigFile[]): Promise<readonly ParsedFile[]> {
  return Promise.all(
    files.map(async ({ content, path }) => {
      // kubectl reads an empty file as a kubeconfig without entries.
      const document = content.trim() === '' ? {} : await parseDocument(content, path);
      return { path, config: check(Config, document, { path, field: '' }) };
    }),
  );
}

function findContext(configs: readonly ParsedFile[], contextName: string | undefined): Entry {
  const paths = configs.map((each) => `"${each.path}"`).join(', ');
  const where = configs.length === 1 ? `file ${paths}` : `files ${paths}`;
  const entries = entriesOf(configs, 'context');
  if (contextName !== undefined) {
    const found = entries.find(({ name }) => name === contextName);
    if (found !== undefined) return found;
    throw accessInvalid(
      `${where}: there is no context "${contextName}" (contexts: ${quoted(entries)})`,
      'Use --context with one of these contexts, or name the kubeconfig that has it with --kubeconfig FILE',
    );
  }
  const first = configs.find(({ config }) => (config['current-context'] ?? '') !== '');
  if (first === undefined) {
    throw accessInvalid(
      `${where}: current-context: missing (contexts: ${quoted(entries)})`,
      'Set it with "kubectl config use-context NAME", or run netplugctl with --context NAME',
    );
  }
  const name = first.config['current-context'] ?? '';
  return find(configs, 'context', { path: first.path, name, why: 'current-context' });
}

/** JSON is tried first: it is what the agent writes, and the YAML library takes longer to load than a whole ADD. */
async function parseDocument(content: string, path: string): Promise<unknown> {
  try {
    return JSON.parse(content);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
  }
  const { parse } = await import('yaml');
  try {
    return parse(content);
  } catch (cause) {
    throw wrong(path, `is neither JSON nor YAML (${reasonOf(cause).split('\n')[0] ?? ''})`, cause);
  }
}

type EntryKind = 'cluster' | 'user' | 'context';

interface Entry extends KubeconfigOrigin {
  readonly name: unknown;
  readonly value: unknown;
}

/** In the order of the files, so that the first entry of a name is the one that counts. */
function entriesOf(configs: readonly ParsedFile[], kind: EntryKind): readonly Entry[] {
  return configs.flatMap(({ path, config }) => {
    const list: readonly Readonly<Record<string, unknown>>[] = config[`${kind}s`] ?? [];
    return list.map((each, index) => ({
      name: each['name'],
      value: each[kind] ?? {},
      path,
      field: `${kind}s[${String(index)}].${kind}`,
    }));
  });
}

function find(
  configs: readonly ParsedFile[],
  kind: EntryKind,
  { path, name, why }: { path: string; name: string; why: string },
): Entry {
  const entries = entriesOf(configs, kind);
  const found = entries.find((each) => each.name === name);
  if (found !== undefined) return found;
  throw wrong(path, `${why}: there is no ${kind} "${name}" (${kind}s: ${quoted(entries)})`);
}

function namesOf(entries: readonly Entry[]): readonly string[] {
  return [...new Set(entries.map(({ name }) => String(name)))];
}

function quoted(entries: readonly Entry[]): string {
  const names = namesOf(entries).map((name) => `"${name}"`);
  return names.length === 0 ? 'none' : names.join(', ');
}

function check<S extends v.GenericSchema>(
  schema: S,
  raw: unknown,
  { path, field }: { path: string; field: string },
): v.InferOutput<S> {
  const read = v.safeParse(schema, raw);
  if (read.success) return read.output;
  const [issue] = read.issues;
  const key = v.getDotPath(issue);
  const at = [field, key ?? ''].filter((part) => part !== '').join('.');
  const needed = issue.input === undefined ? 'missing' : `allowed is ${issue.message}`;
  throw wrong(path, `${at === '' ? 'the document' : at}: ${needed}`);
}
