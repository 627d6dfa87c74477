import type { ResourceStore } from '../../datastore/resource-store.ts';
import { isNetplugError, NetplugError } from '../../base/errors.ts';
import { isNewerVersion, plainVersion } from '../../base/compare-versions.ts';
import { VERSION } from '../../base/version.ts';
import { CLUSTER_INFORMATION_ID, type ClusterInformation, isLocked } from '../../model/cluster-information.ts';
import type { Context } from './ports.ts';

/** Access of a command to the datastore. `ask-version` skips every check. */
export type Access = 'read' | WriteAccess | 'ask-version';
/** `write-locked` is for commands that manage the lock, `write-older` for those that precede an upgrade to this release. */
export type WriteAccess = 'write' | 'write-locked' | 'write-older';

/** The refusals that the user overrides. */
export interface Allowances {
  readonly versionMismatch: boolean;
  readonly locked: boolean;
}

/**
 * Checks that the command may use the datastore. A tool of another version may not understand every record, so it must
 * not write; when it reads, it warns. @throws cli/version-mismatch, store/locked, and store/refused or store/corrupt
 * when version and lock cannot be read
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
    io.stderr(`warning: this tool is ${VERSION}, the cluster ${other}: it may not show everything\n`);
  }
}

/** Returns why the command must not write; undefined when it may, or when the user overrides the refusal. */
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

/** Returns the version of the cluster when it is known and differs from that of this tool. */
function otherVersion(cluster: ClusterInformation | undefined): string | undefined {
  const version = cluster?.spec.netplugVersion ?? '';
  return version === '' || plainVersion(version) === plainVersion(VERSION) ? undefined : version;
}

/** Returns why ClusterInformation cannot be read although the datastore is available. */
function unreadable(cause: unknown): NetplugError {
  if (isNetplugError(cause, 'store/refused', 'store/corrupt')) return cause;
  throw cause;
}

function warnUnknown({ stderr }: Context['io'], cause: NetplugError): void {
  stderr(`warning: cannot read the version of the cluster: ${cause.message}\n`);
}

function unknownCluster(cause: NetplugError): NetplugError {
  const { code, message, facts } = cause;
  return new NetplugError(code, `Cannot write: the version and the lock of the cluster cannot be read: ${message}`, {
    hint: 'Repair ClusterInformation first, or write nevertheless with --allow-version-mismatch and --allow-locked',
    facts,
    cause,
  });
}

function versionMismatch(cluster: string): NetplugError {
  return new NetplugError(
    'cli/version-mismatch',
    `Cannot write with netplugctl ${VERSION}: the cluster is of version ${cluster}`,
    {
      hint: 'Use netplugctl of that version. --allow-version-mismatch writes nevertheless and may drop fields that this version does not know',
      facts: { tool: VERSION, cluster },
    },
  );
}

function lockedError(): NetplugError {
  return new NetplugError('store/locked', 'Cannot write: the datastore is locked for maintenance', {
    hint: 'Unlock it with "netplugctl datastore unlock". --allow-locked writes nevertheless; a running export may miss the change',
  });
}
