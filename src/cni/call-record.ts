import type { Phase } from '../base/stopwatch.ts';
import type { TraceParent } from '../base/trace-parent.ts';
import type { CniVerb } from './invocation.ts';

export type Program = 'netplug' | 'netplug-ipam';

/** The record of a finished call, for history, metrics and traces. Texts from the caller are not truncated. */
export interface CallRecord {
  readonly program: Program;
  /** Undefined when CNI_COMMAND named no known command. */
  readonly command: CniVerb | undefined;
  readonly identity: CallIdentity;
  /** Wall clock, milliseconds since the epoch. */
  readonly startedAt: number;
  readonly totalMs: number;
  readonly phases: readonly Phase[];
  /** Undefined when the call succeeded. */
  readonly failure: Failure | undefined;
  /** The runtime's span, when it passed one in TRACEPARENT. */
  readonly parent: TraceParent | undefined;
}

/** Attachment that the call was for. Fields that were not decoded before the call failed are undefined. */
export interface CallIdentity {
  readonly containerId?: string | undefined;
  readonly ifName?: string | undefined;
  readonly network?: string | undefined;
  /** Namespace and name, with a slash between. */
  readonly pod?: string | undefined;
  readonly node?: string | undefined;
}

export interface Failure {
  /** One of docs/errors.md, or `delegate/refused` when a delegated plugin answered with an error of its own. */
  readonly code: string;
  readonly message: string;
}

/**
 * Returns `warm-pool` when the call used a pre-allocated address and wrote to the journal only, `datastore` when it waited
 * for the datastore, and undefined when it needed neither.
 */
export function pathOf({ phases }: Pick<CallRecord, 'phases'>): 'warm-pool' | 'datastore' | undefined {
  const names = new Set(phases.map(({ name }) => name));
  if (names.has('journal') && !names.has('flush')) return 'warm-pool';
  return names.has('store') ? 'datastore' : undefined;
}
