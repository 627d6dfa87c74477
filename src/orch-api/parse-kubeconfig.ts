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

/** The cluster and user of the current context; `clusterField` and `userField` say where they stand in the file. */
export interface KubeconfigChoice {
  readonly cluster: ClusterEntry;
  readonly user: UserEntry;
  readonly clusterField: string;
  readonly userField: string;
}

/** Reads the current context of a configuration file. @throws store/config-invalid naming file, field and reason */
export async function parseKubeconfig(content: string, path: string): Promise<KubeconfigChoice> {
  const config = check(Config, await parseDocument(content, path), { path, field: '' });
  const current = config['current-context'] ?? '';
  if (current === '') throw wrong(path, 'current-context: missing; it names the context to use');
  const context = pick(config.contexts, 'context', { path, name: current, why: 'current-context' });
  const { cluster, user } = check(Context, context.value, { path, field: context.field });
  const chosen = pick(config.clusters, 'cluster', { path, name: cluster, why: `${context.field}.cluster` });
  const nobody = { value: {}, field: 'users' };
  const who = user === '' ? nobody : pick(config.users, 'user', { path, name: user, why: `${context.field}.user` });
  return {
    cluster: check(Cluster, chosen.value, { path, field: chosen.field }),
    user: check(User, who.value, { path, field: who.field }),
    clusterField: chosen.field,
    userField: who.field,
  };
}

export function wrong(path: string, what: string, cause?: unknown): ReturnType<typeof accessInvalid> {
  return accessInvalid(`file "${path}": ${what}`, 'Correct the file, or name another one in orch.orchconfig', cause);
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

function pick(
  list: readonly Readonly<Record<string, unknown>>[] | null | undefined,
  entry: 'cluster' | 'user' | 'context',
  { path, name, why }: { path: string; name: string; why: string },
): { value: unknown; field: string } {
  const index = (list ?? []).findIndex((each) => each['name'] === name);
  const found = list?.[index];
  if (found === undefined) {
    const names = (list ?? []).map((each) => `"${String(each['name'])}"`).join(', ');
    throw wrong(path, `${why}: there is no ${entry} "${name}" (${entry}s: ${names === '' ? 'none' : names})`);
  }
  return { value: found[entry] ?? {}, field: `${entry}s[${String(index)}].${entry}` };
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
