import type { Sources } from './sources.ts';

/** `error`: something does not work, or is about to fail. `warning`: needs attention. `note`: good to know. */
export type Severity = 'error' | 'warning' | 'note';
export const SEVERITIES: readonly Severity[] = ['error', 'warning', 'note'];

/** Whether facts come from the machine the tool runs on, or from the datastore. */
export type Scope = 'node' | 'cluster';

/** A deviation from what a check expects. */
export interface Fault {
  /** A clause that names what was found, with its value. */
  readonly found: string;
  readonly remedy: string;
  /** A command that applies the remedy. */
  readonly command?: string;
}

/** Description of a check. */
export interface CheckInfo {
  /** `<area>/<problem>`; stable, since tools rely on it. */
  readonly id: string;
  readonly severity: Severity;
  /** A noun phrase for the desired state. */
  readonly expected: string;
}

/** A check: a pure function from facts to faults. */
export interface Check<F> extends CheckInfo {
  readonly judge: (facts: F) => readonly Fault[];
}

export interface Finding extends CheckInfo, Fault {
  readonly area: string;
}

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
      return { measured: measure(facts), findings: judgeAll(area, checks, facts) };
    },
  };
}

/** Runs all checks. Returns the findings in the order of the checks. */
export function judgeAll<F>(area: string, checks: readonly Check<F>[], facts: F): readonly Finding[] {
  return checks.flatMap(({ judge, id, severity, expected }) =>
    judge(facts).map((fault) => ({ area, id, severity, expected, ...fault })),
  );
}
