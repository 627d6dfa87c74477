import type { Phase } from '../base/stopwatch.ts';
import type { TraceParent } from '../base/trace-parent.ts';
import type { CniVerb } from './invocation.ts';

export type Program = 'netplug' | 'netplug-ipam';

/** What is known of a call once it has ended; texts are as long as the caller made them. */
export interface CallRecord {
  readonly program: Program;
  /** Undefined when the runtime named no command there is. */
  readonly command: CniVerb | undefined;
  readonly identity: CallIdentity;
  /** Wall clock, milliseconds since the epoch. */
  readonly startedAt: number;
  readonly totalMs: number;
  readonly phases: readonly Phase[];
  /** Undefined when the call was served. */
  readonly failure: Failure | undefined;
  /** The span the runtime called from, if it told one. */
  readonly parent: TraceParent | undefined;
}

/** Whom the call was about, as far as it got to know. */
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

/** Whether the call waited for the datastore, or the journal alone was enough; undefined when it needed neither. */
export function wayOf({ phases }: Pick<CallRecord, 'phases'>): 'stock' | 'waited' | undefined {
  const names = new Set(phases.map(({ name }) => name));
  if (names.has('journal') && !names.has('flush')) return 'stock';
  return names.has('store') ? 'waited' : undefined;
}
