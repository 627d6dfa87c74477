import { never } from '../../../../base/errors.ts';

/**
 * Pods that the kernel closes as long as it does not have their policies: none for certain, those that were isolated, or
 * every pod that it does not know.
 */
type ClosedPods = 'none' | 'isolated' | 'unknown';

/**
 * Stage of a process in the enforcement of policies. It begins `off`; then it is `reading` the datastore, `held` until the
 * settings allow the first policies, and `enforcing`. There is no way back.
 */
export type EnforcementStage =
  | { readonly kind: 'off' }
  | { readonly kind: 'reading' | 'held' | 'enforcing'; readonly closed: ClosedPods };

export type EnforcementEvent =
  /** Policies are to be enforced. */
  | 'switched on'
  /** The first snapshot of the datastore is complete. */
  | 'datastore read'
  /** The settings allow the first policies. */
  | 'settings passed'
  /** A write has succeeded, of policies or of closed pods. */
  | 'written'
  /** The kernel has a table that closes every pod it does not know. */
  | 'unknown pods closed'
  | 'write failed';

/** Returns the stage after an event. An event that does not belong to the stage changes nothing. */
export function nextStage(stage: EnforcementStage, event: EnforcementEvent): EnforcementStage {
  if (stage.kind === 'off') return event === 'switched on' ? { kind: 'reading', closed: 'none' } : stage;
  const { kind, closed } = stage;
  switch (event) {
    case 'switched on':
      return stage;
    case 'datastore read':
      return kind === 'reading' ? { kind: 'held', closed } : stage;
    case 'settings passed':
      return kind === 'held' ? { kind: 'enforcing', closed } : stage;
    case 'written':
      return closed === 'none' ? { kind, closed: 'isolated' } : stage;
    case 'unknown pods closed':
      return { kind, closed: 'unknown' };
    case 'write failed':
      // The failed write may be the one that should have closed the latest pod, unless unknown pods are closed anyway.
      return closed === 'isolated' ? { kind, closed: 'none' } : stage;
    default:
      return never(event);
  }
}

/** Reports whether policies may be written: the datastore was read, and the settings allow it. */
export function isEnforcing({ kind }: EnforcementStage): boolean {
  return kind === 'enforcing';
}

/** Reports whether the kernel closes every pod that was isolated and whose policies it does not have. */
export function closesIsolated(stage: EnforcementStage): boolean {
  return stage.kind !== 'off' && stage.closed !== 'none';
}
