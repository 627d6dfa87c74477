import { AGENT_SET, SYSTEM_NAMESPACE } from '../../install/cluster/names.ts';
import { HOLD_AGENTS, INSTALLATION_NAME } from '../../model/installation.ts';
import { findNamed, metadataIn, recordIn, textIn } from './objects-in.ts';
import type { ClusterSnapshot } from './snapshot.ts';

/**
 * Notes on the namespace, which survive the program that carries out an upgrade: when the backup of the upgrade under way was
 * written, which release one node has proved, and which one all have.
 */
export const NOTES = {
  backup: 'netplug.io/upgrade-backup',
  canary: 'netplug.io/upgrade-canary',
  verified: 'netplug.io/upgrade-verified',
} as const;

/** Reports whether a DaemonSet replaces its pods only when they are deleted. */
export function isOnDelete(agents: Readonly<Record<string, unknown>>): boolean {
  return textIn(recordIn(recordIn(agents, 'spec'), 'updateStrategy'), 'type') === 'OnDelete';
}

/** Reports whether an upgrade that was stopped keeps agents from following. A user may have a DaemonSet `OnDelete` for ever. */
export function areAgentsHeld({ objects }: Pick<ClusterSnapshot, 'objects'>): boolean {
  const named = (kind: string, name: string) => findNamed(objects, kind, name) ?? {};
  const isUnderWay = NOTES.canary in metadataIn(named('Namespace', SYSTEM_NAMESPACE)).annotations;
  const isHeldByOperator = HOLD_AGENTS in metadataIn(named('Installation', INSTALLATION_NAME)).annotations;
  return isHeldByOperator || (isUnderWay && isOnDelete(named('DaemonSet', AGENT_SET)));
}
