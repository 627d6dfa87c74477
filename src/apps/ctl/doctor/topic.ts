import { type Check, type CheckInfo, type Finding, judgeAll } from '../../../checks/check.ts';
import type { Sources } from './sources.ts';

/** Whether facts come from the machine the tool runs on, or from the datastore. */
export type Scope = 'node' | 'cluster';

/** Result of one topic. */
export interface Examination {
  /** Measurements to print, which no check covers. */
  readonly measured: readonly string[];
  readonly findings: readonly Finding[];
}

/** An area of the diagnosis: how to gather its facts, and the checks on them. */
export interface Topic {
  readonly area: string;
  readonly scope: Scope;
  /** Whether the topic is left out while the datastore is unavailable. */
  readonly needsRecords: boolean;
  readonly checks: readonly CheckInfo[];
  readonly examine: (sources: Sources, signal: AbortSignal) => Promise<Examination>;
}

interface TopicParts<F> {
  readonly area: string;
  readonly scope: Scope;
  readonly needsRecords?: true;
  readonly gather: (sources: Sources, signal: AbortSignal) => Promise<F>;
  readonly measure: (facts: F) => readonly string[];
  readonly checks: readonly Check<F>[];
}

export function topic<F>({ area, scope, needsRecords, gather, measure, checks }: TopicParts<F>): Topic {
  return {
    area,
    scope,
    needsRecords: needsRecords === true,
    checks,
    examine: async (sources, signal) => {
      const facts = await gather(sources, signal);
      return { measured: measure(facts), findings: judgeAll(checks, facts) };
    },
  };
}
