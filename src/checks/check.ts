import type { ResourceKind } from '../model/kinds.ts';

/** `error`: something does not work, or is about to fail. `warning`: needs attention. `note`: good to know. */
export type Severity = 'error' | 'warning' | 'note';
export const SEVERITIES: readonly Severity[] = ['error', 'warning', 'note'];

/** A fact of a cluster that is read by itself, so that it may be the only one that is not known. */
export type ReadFact =
  | ResourceKind
  | 'addresses'
  | 'admission'
  | 'bindings'
  | 'chart records'
  | 'clocks'
  | 'definitions'
  | 'dry run of the target'
  | 'mesh'
  | 'method'
  | 'nodes'
  | 'plugins'
  | 'pods'
  | 'pools'
  | 'release'
  | 'rights'
  | 'service proxy'
  | 'service ranges'
  | 'services'
  | 'sidecars'
  | 'webhooks';

/** Description of a check. */
export interface CheckInfo {
  /** `<area>/<problem>`; stable, since tools rely on it. */
  readonly id: string;
  readonly severity: Severity;
  /** A noun phrase for the desired state. */
  readonly expected: string;
}

/** Remedy for a fault. */
interface Remedy {
  readonly remedy: string;
  /** A command that applies the remedy. */
  readonly command?: string;
}

/** A deviation from what a check expects. */
export interface Fault extends Partial<Remedy> {
  /** A clause that names what was found, with its value. */
  readonly found: string;
  /** The objects by name. */
  readonly objects?: readonly string[];
}

/** A check: a pure function from facts to faults. A text is a fault with that finding. */
export interface Check<F> extends CheckInfo, Partial<Remedy> {
  /** Facts without which the check knows nothing. */
  readonly needs?: readonly ReadFact[];
  readonly judge: (facts: F) => readonly (string | Fault)[];
}

export interface Finding extends CheckInfo, Remedy, Omit<Fault, keyof Remedy> {}

/** A fact that could not be read, or a part of one. */
export interface Unread {
  readonly fact: string;
  readonly why: string;
}

/**
 * Runs all checks. Returns the findings in the order of the checks. The remedy of a check applies to its faults that have none.
 * A check that needs an unread fact is a finding too, because its answer is not known.
 */
export function judgeAll<F>(checks: readonly Check<F>[], facts: F, unread: readonly Unread[] = []): readonly Finding[] {
  return checks.flatMap(({ judge, needs = [], remedy = '', command, ...check }) => {
    const missing = unread.filter(({ fact }) => needs.some((need) => need === fact));
    if (missing.length > 0) return [{ ...check, ...notKnown(missing) }];
    return judge(facts).map((each): Finding => {
      const fault = typeof each === 'string' ? { found: each } : each;
      const own = fault.remedy === undefined && command !== undefined ? { command } : {};
      return { ...check, remedy, ...own, ...fault };
    });
  });
}

function notKnown(missing: readonly Unread[]): Omit<Finding, keyof CheckInfo> {
  return {
    found: `not known: ${missing.map(({ fact, why }) => `${fact} could not be read (${why})`).join(', ')}`,
    remedy: 'Use an account that may read it, and run the command again',
  };
}

/** Returns one fault for all the objects, or none without objects. */
export function faultOf(objects: readonly string[], found: string, remedy?: string): readonly Fault[] {
  return objects.length === 0 ? [] : [{ found, objects, ...(remedy === undefined ? {} : { remedy }) }];
}

export function hasErrors(findings: readonly CheckInfo[]): boolean {
  return findings.some(({ severity }) => severity === 'error');
}
