import type { ResourceStore } from '../../datastore/resource-store.ts';
import { isNetplugError, NetplugError } from '../../base/errors.ts';
import { isNewerVersion, plainVersion } from '../../base/compare-versions.ts';
import { VERSION } from '../../base/version.ts';
import { CLUSTER_INFORMATION_ID, type ClusterInformation, isLocked } from '../../model/cluster-information.ts';
import type { Context } from './ports.ts';

/** What a command does to the datastore; `ask-version` is for those that take it as it is. */
export type Access = 'read' | WriteAccess | 'ask-version';
/** `write-locked` is for commands that deal with the lock, `write-older` for what is done before an upgrade to this release. */
export type WriteAccess = 'write' | 'write-locked' | 'write-older';

/** What somebody lets a command do although it would be refused. */
export interface Allowances {
  readonly versionMismatch: boolean;
  readonly locked: boolean;
}

/**
 * Lets the command have the datastore. A tool of another version may not know what the cluster's releases store, so it
 * does not write; reading, it warns. @throws cli/version-mismatch, store/locked, and store/refused or store/corrupt where
 * that cannot be known
 */
export async function admit(context: Context, store: ResourceStore, access: Access): Promise<void> {
  if (access === 'ask-version') return;
  if (access === 'read') return warnReader(context, store);
  const refusal = await findRefusal(context, store, access);
  if (refusal !== undefined) throw refusal;
}

async function warnReader({ io, signal }: Context, store: ResourceStore): Promise<void> {
  const cluster = await findCluster(store, signal).catch(unreadable);
  if (cluster instanceof NetplugError) return warnUnknown(io, cluster);
  const other = otherVersion(cluster);
  if (other !== undefined) {
    io.stderr(`warning: this tool is ${VERSION}, the cluster ${other}: it may not show all there is\n`);
  }
}

/** What is against writing there and is not allowed all the same. */
export async function findRefusal(
  { io, allow, signal }: Context,
  store: ResourceStore,
  access: WriteAccess,
): Promise<NetplugError | undefined> {
  const mayBeLocked = allow.locked || access === 'write-locked';
  const cluster = await findCluster(store, signal).catch(unreadable);
  if (cluster instanceof NetplugError) {
    if (!allow.versionMismatch || !mayBeLocked) return unknownCluster(cluster);
    warnUnknown(io, cluster);
    return undefined;
  }
  const other = otherVersion(cluster);
  const mayDiffer = allow.versionMismatch || (access === 'write-older' && isNewerVersion(VERSION, other ?? ''));
  if (other !== undefined && !mayDiffer) return versionMismatch(other);
  return isLocked(cluster) && !mayBeLocked ? lockedError() : undefined;
}

export async function findCluster(store: ResourceStore, signal: AbortSignal): Promise<ClusterInformation | undefined> {
  return store.findResource(CLUSTER_INFORMATION_ID, signal);
}

/** The version of the cluster when it is known and not that of this tool. */
function otherVersion(cluster: ClusterInformation | undefined): string | undefined {
  const version = cluster?.spec.netplugVersion ?? '';
  return version === '' || plainVersion(version) === plainVersion(VERSION) ? undefined : version;
}

/** Why the note about the cluster cannot be read, although the datastore answers. */
function unreadable(cause: unknown): NetplugError {
  if (isNetplugError(cause, 'store/refused', 'store/corrupt')) return cause;
  throw cause;
}

function warnUnknown({ stderr }: Context['io'], cause: NetplugError): void {
  stderr(`warning: the version of the cluster stays unknown: ${cause.message}\n`);
}

function unknownCluster(cause: NetplugError): NetplugError {
  const { code, message, facts } = cause;
  return new NetplugError(code, `Cannot write: the version of the cluster and its lock stay unknown: ${message}`, {
    hint: 'Repair that first; --allow-version-mismatch with --allow-locked writes all the same',
    facts,
    cause,
  });
}

function versionMismatch(cluster: string): NetplugError {
  return new NetplugError(
    'cli/version-mismatch',
    `Cannot write with netplugctl ${VERSION}: the cluster is of version ${cluster}`,
    {
      hint: 'Use the tool of that version; --allow-version-mismatch writes all the same, and may drop what it does not know',
      facts: { tool: VERSION, cluster },
    },
  );
}

function lockedError(): NetplugError {
  return new NetplugError('store/locked', 'Cannot write: the datastore is locked', {
    hint: 'End that with "netplugctl datastore unlock"; --allow-locked writes all the same, and an export may miss it',
  });
}
