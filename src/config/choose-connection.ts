import { NetplugError } from '../base/errors.ts';
import type { KubeconfigSource } from '../model/kubeconfig-source.ts';
import {
  CONNECTION_KEYS,
  decodeConnection,
  type DecodedConnection,
  ORCH_KEYS,
  type RawConnection,
} from './decode-connection.ts';
import type { Env } from './environment.ts';

const API_DATASTORE: RawConnection = { datastore_type: 'orch' };

/** The flags that netplugctl shares with kubectl. */
export interface KubeconfigFlags {
  /** Value of `--kubeconfig`. */
  readonly file: string | undefined;
  /** Value of `--context`. */
  readonly context: string | undefined;
}

/** Flags and environment of one call, and the facts about the machine that the choice depends on. */
export interface ConnectionInputs {
  readonly flags: KubeconfigFlags;
  readonly env: Env;
  /** Path of ~/.kube/config; undefined when that file does not exist. */
  readonly homeFile: string | undefined;
  /** Whether the API server's address and a service account token are present, as in a pod. */
  readonly isInCluster: boolean;
}

export interface ConnectionChoice {
  /** The connection keys to decode; empty for the defaults. */
  readonly raw: RawConnection;
  /** Access to the API server where `raw` has none. */
  readonly kubeconfig: KubeconfigSource | undefined;
  /** The flag, file or variable that decided, for messages. */
  readonly from: string;
}

/**
 * Decides how netplugctl reaches the datastore without `--config`. In order of precedence: `--kubeconfig` and
 * `--context`, netplugctl's own variables, `KUBECONFIG`. For `DATASTORE_TYPE=orch` without access, `KUBECONFIG` is
 * followed by the account of the pod and ~/.kube/config. Pure. @throws store/config-invalid for a context without a
 * kubeconfig
 */
export function chooseConnection(inputs: ConnectionInputs): ConnectionChoice {
  const { flags, env, homeFile, isInCluster } = inputs;
  if (hasFlags(flags)) {
    const kubeconfig = findKubeconfig(inputs) ?? noKubeconfig(flags);
    return { raw: API_DATASTORE, kubeconfig, from: describe(kubeconfig) };
  }
  const raw = ownVariables(env);
  const named = fromVariable(env);
  if (Object.keys(raw).length === 0 && named !== undefined) {
    return { raw: API_DATASTORE, kubeconfig: named, from: describe(named) };
  }
  const lacksAccess = raw['datastore_type'] === 'orch' && ORCH_KEYS.every((key) => raw[key] === undefined);
  const fallback = isInCluster ? undefined : fromHome(homeFile);
  return { raw, kubeconfig: lacksAccess ? (named ?? fallback) : undefined, from: 'the environment' };
}

/** Returns the kubeconfig whose contexts `--context` chooses from; undefined when there is none. */
export function findKubeconfig({
  flags,
  env,
  homeFile,
}: Omit<ConnectionInputs, 'isInCluster'>): KubeconfigSource | undefined {
  const { file, context } = flags;
  if (file !== undefined) return { paths: [file], namedBy: '--kubeconfig', ifMissing: 'refuse', context };
  const own = valueOf(env, 'ORCHCONFIG');
  const found: KubeconfigSource | undefined =
    own === undefined
      ? (fromVariable(env) ?? fromHome(homeFile))
      : { paths: [own], namedBy: 'ORCHCONFIG', ifMissing: 'refuse', context };
  return found === undefined ? undefined : { ...found, context };
}

/** Returns the variables of netplugctl that are set. An empty variable counts as unset. */
export function ownVariables(env: Env): RawConnection {
  return Object.fromEntries(
    [...CONNECTION_KEYS, ...ORCH_KEYS].flatMap((key) => {
      const value = valueOf(env, key.toUpperCase());
      return value === undefined ? [] : [[key, value]];
    }),
  );
}

/** Reads the connection from the variables of netplug alone, as the agent does. @throws netconf/invalid */
export function readOwnVariables(env: Env): DecodedConnection {
  return decodeConnection(ownVariables(env), { config: undefined, kubeconfig: undefined });
}

export function hasFlags({ file, context }: KubeconfigFlags): boolean {
  return file !== undefined || context !== undefined;
}

/** Reads KUBECONFIG as kubectl does: a list of files separated by colons, without empty and repeated entries. */
function fromVariable(env: Env): KubeconfigSource | undefined {
  const paths = [...new Set((valueOf(env, 'KUBECONFIG') ?? '').split(':'))].filter((path) => path !== '');
  return paths.length === 0 ? undefined : { paths, namedBy: 'KUBECONFIG', ifMissing: 'skip', context: undefined };
}

function fromHome(homeFile: string | undefined): KubeconfigSource | undefined {
  if (homeFile === undefined) return undefined;
  return { paths: [homeFile], namedBy: 'the default kubeconfig', ifMissing: 'refuse', context: undefined };
}

function noKubeconfig({ context }: KubeconfigFlags): never {
  const problem = `there is no kubeconfig with context "${context ?? ''}": KUBECONFIG is not set and ~/.kube/config does not exist`;
  throw new NetplugError('store/config-invalid', `Cannot use the API of the orchestrator: ${problem}`, {
    hint: 'Set KUBECONFIG, or name the kubeconfig with --kubeconfig FILE',
  });
}

function describe({ paths, namedBy, context }: KubeconfigSource): string {
  const files = `${namedBy} ${paths.map((path) => `"${path}"`).join(', ')}`;
  return context === undefined ? files : `${files}, context "${context}"`;
}

function valueOf(env: Env, name: string): string | undefined {
  const value = env[name];
  return value === '' ? undefined : value;
}
