import { isNetplugError, NetplugError } from '../base/errors.ts';
import { plainVersion } from '../base/compare-versions.ts';
import { VERSION } from '../base/version.ts';
import type { Store } from '../datastore/store.ts';
import { CLUSTER_INFORMATION_ID, type ClusterInformation, isLocked } from '../model/cluster-information.ts';
import type { Context } from './ports.ts';

/** What a command does to the datastore; `write-locked` is for those that deal with the lock, `ask-version` for none. */
export type Access = 'read' | 'write' | 'write-locked' | 'ask-version';

/** What somebody lets a command do although it would be refused. */
export interface Allowances {
  readonly versionMismatch: boolean;
  readonly locked: boolean;
}

/** A rehearsal changes nothing. */
export function accessIn(mode: 'rehearse' | 'carry-out'): Access {
  return mode === 'rehearse' ? 'read' : 'write';
}

/**
 * Lets the command have the datastore. A tool of another version may not know what the cluster's releases store, so it
 * does not write; reading, it warns. @throws cli/version-mismatch, store/locked
 */
export async function admit({ io, allow, signal }: Context, store: Store, access: Access): Promise<void> {
  if (access === 'ask-version') return;
  const cluster = await findCluster(store, signal).catch((cause: unknown) => {
    if (!isNetplugError(cause, 'store/refused', 'store/corrupt')) throw cause;
    io.stderr(`warning: the version of the cluster stays unknown: ${cause.message}\n`);
    return undefined;
  });
  const other = otherVersion(cluster);
  if (other !== undefined && access === 'read') {
    io.stderr(`warning: this tool is ${VERSION}, the cluster ${other}: it may not show all there is\n`);
  }
  if (other !== undefined && access !== 'read' && !allow.versionMismatch) throw versionMismatch(other);
  if (access === 'write' && isLocked(cluster) && !allow.locked) throw lockedError();
}

export async function findCluster(store: Store, signal: AbortSignal): Promise<ClusterInformation | undefined> {
  return store.findResource(CLUSTER_INFORMATION_ID, signal);
}

/** The version of the cluster when it is known and not that of this tool. */
function otherVersion(cluster: ClusterInformation | undefined): string | undefined {
  const version = cluster?.spec.netplugVersion ?? '';
  return version === '' || plainVersion(version) === plainVersion(VERSION) ? undefined : version;
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
