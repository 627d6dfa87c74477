import type { Sources } from './sources.ts';

/** `error`: something does not work, or is about to fail. `warning`: somebody should look. `note`: good to know. */
export type Severity = 'error' | 'warning' | 'note';
export const SEVERITIES: readonly Severity[] = ['error', 'warning', 'note'];

/** Whether facts come from the machine the tool runs on, or from the datastore. */
export type Scope = 'node' | 'cluster';

/** One thing that is not as a check expects it. */
export interface Fault {
  /** A clause that names what was found, with its value. */
  readonly found: string;
  readonly remedy: string;
  /** Carries the remedy out. */
  readonly command?: string;
}

/** What the list of checks says of one. */
export interface CheckInfo {
  /** `<area>/<what is wrong>`; a contract. */
  readonly id: string;
  readonly severity: Severity;
  /** A clause: how it shall be. */
  readonly expected: string;
}

/** One small judge: facts in, faults out, nothing else. */
export interface Check<F> extends CheckInfo {
  readonly judge: (facts: F) => readonly Fault[];
}

export interface Finding extends CheckInfo, Fault {
  readonly area: string;
}

/** What was seen of one topic. */
export interface Examination {
  /** What was measured and is worth a look although nobody judges it. */
  readonly measured: readonly string[];
  readonly findings: readonly Finding[];
}

/** Facts that are gathered together, and the checks over them. */
export interface Topic {
  readonly area: string;
  readonly scope: Scope;
  /** Whether it makes sense only while the datastore answers. */
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

/** In the order of the checks. */
export function judgeAll<F>(area: string, checks: readonly Check<F>[], facts: F): readonly Finding[] {
  return checks.flatMap(({ judge, id, severity, expected }) =>
    judge(facts).map((fault) => ({ area, id, severity, expected, ...fault })),
  );
}
