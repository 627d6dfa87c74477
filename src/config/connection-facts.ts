import { ownValue } from '../base/own-value.ts';
import type { NetplugError } from '../base/errors.ts';
import type { KubeconfigSource } from '../model/kubeconfig-source.ts';
import type { Datastore } from './connection.ts';
import { CONNECTION_KEYS, ORCH_KEYS, type RawConnection } from './decode-connection.ts';
import type { Env } from './environment.ts';

/** The flags that netplugctl shares with kubectl. */
export interface KubeconfigFlags {
  /** Value of `--kubeconfig`. */
  readonly file: string | undefined;
  /** Value of `--context`. */
  readonly context: string | undefined;
}

/** A network configuration of netplug: its datastore, or why it is invalid. */
export interface NetconfConnection {
  readonly file: string;
  readonly datastore: Datastore | NetplugError;
}

/** Everything that the choice depends on: the command line, the environment, and files of the machine. */
export interface ConnectionFacts {
  readonly flags: KubeconfigFlags;
  /** The file of `--config` with its keys. */
  readonly config: { readonly file: string; readonly raw: RawConnection } | undefined;
  /** The file of `--netconf`. */
  readonly netconf: NetconfConnection | undefined;
  readonly env: Env;
  readonly node: {
    /** Folder of the network configurations of this machine. */
    readonly folder: string;
    readonly netconf: NetconfConnection | undefined;
    /** Files of the folder that cannot be read. */
    readonly unreadable: readonly string[];
  };
  /** Whether the API server's address and a service account token are present, as in a pod. */
  readonly hasAccount: boolean;
  /** Path of ~/.kube/config; undefined without a home folder. */
  readonly homeFile: { readonly path: string; readonly exists: boolean } | undefined;
}

/**
 * Purpose of a connection: `records` of the cluster; the objects of the `cluster` itself, which only an administrator
 * changes; the records of `this-node`, in the datastore of its plugin.
 */
export type ConnectionUse = 'records' | 'cluster' | 'this-node';

/** Returns the kubeconfig whose contexts `--context` chooses from; undefined when there is none. */
export function findKubeconfig(
  facts: Pick<ConnectionFacts, 'flags' | 'env' | 'homeFile'>,
): KubeconfigSource | undefined {
  const { file, context } = facts.flags;
  if (file !== undefined) return { paths: [file], namedBy: '--kubeconfig', ifMissing: 'refuse', context };
  const own = valueOf(facts.env, 'ORCHCONFIG');
  const found: KubeconfigSource | undefined =
    own === undefined
      ? (listedKubeconfig(facts.env) ?? homeKubeconfig(facts))
      : { paths: [own], namedBy: 'ORCHCONFIG', ifMissing: 'refuse', context };
  return found === undefined ? undefined : { ...found, context };
}

/** Reads KUBECONFIG as kubectl does: a list of files separated by colons, without empty and repeated entries. */
export function listedKubeconfig(env: Env): KubeconfigSource | undefined {
  const paths = [...new Set((valueOf(env, 'KUBECONFIG') ?? '').split(':'))].filter((path) => path !== '');
  return paths.length === 0 ? undefined : { paths, namedBy: 'KUBECONFIG', ifMissing: 'skip', context: undefined };
}

/** Returns the default kubeconfig of kubectl; undefined when it does not exist. */
export function homeKubeconfig({ homeFile }: Pick<ConnectionFacts, 'homeFile'>): KubeconfigSource | undefined {
  if (homeFile?.exists !== true) return undefined;
  return { paths: [homeFile.path], namedBy: 'the default kubeconfig', ifMissing: 'refuse', context: undefined };
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

export function hasFlags({ file, context }: KubeconfigFlags): boolean {
  return file !== undefined || context !== undefined;
}

function valueOf(env: Env, name: string): string | undefined {
  const value = ownValue(env, name);
  return value === '' ? undefined : value;
}
