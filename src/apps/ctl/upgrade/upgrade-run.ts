import { ownValue } from '../../../base/own-value.ts';
import { SYSTEM_NAMESPACE } from '../../../install/cluster/names.ts';
import { annotate, findObject } from '../../../kube/objects/apply.ts';
import { referenceTo } from '../../../kube/objects/reference.ts';
import type { ClusterSnapshot } from '../../../upgrade/cluster/snapshot.ts';
import type { UpgradeTarget } from '../../../upgrade/cluster/target.ts';
import type { PodRun } from '../cluster/node-pods.ts';
import type { UpgradeSession } from './open-upgrade.ts';

const NAMESPACE = referenceTo('Namespace', { name: SYSTEM_NAMESPACE });

export interface UpgradeRun {
  readonly session: UpgradeSession;
  readonly run: PodRun;
  /** Snapshot from when the plan was made; of use for a backup only. */
  readonly snapshot: ClusterSnapshot;
  readonly target: UpgradeTarget;
  /** Folder of the backup. */
  readonly folder: string;
  readonly proof: 'run' | 'skip';
}

/** Returns one of `NOTES` on the namespace. */
export async function noteOf({ api, context: { signal } }: UpgradeSession, note: string): Promise<string | undefined> {
  return ownValue((await findObject(api, NAMESPACE, signal))?.metadata.annotations, note);
}

/** Writes `NOTES` on the namespace; null removes one. */
export async function writeNotes(
  { api, context: { signal } }: UpgradeSession,
  annotations: Readonly<Record<string, string | null>>,
): Promise<void> {
  await annotate(api, { which: NAMESPACE, annotations }, signal);
}
