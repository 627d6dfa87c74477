/** A policy that the API server evaluates about each write of the resources, with its binding. */
export interface AdmissionPolicy {
  readonly name: string;
  /** Purpose: one or more sentences. */
  readonly about: string;
  readonly matches: {
    readonly group: string;
    readonly versions: readonly string[];
    readonly operations: readonly string[];
    readonly resources: readonly string[];
    /** The namespace of the objects; all of them unless given. */
    readonly namespace?: string;
  };
  /** Whose writes are evaluated: those of everyone, or those of the plugin and the agent. */
  readonly writers: 'everyone' | 'programs';
  /** Label of the namespaces in which the policy does not apply. */
  readonly exceptWithLabel?: string;
  /** Expressions by the names that later expressions use. */
  readonly variables: Readonly<Record<string, string>>;
  readonly validations: readonly AdmissionValidation[];
}

export type AdmissionValidation = {
  /** True for a write that is allowed. */
  readonly expression: string;
} & ({ readonly message: string } | { readonly messageExpression: string });

/** Returns an expression of CEL that is written over several lines, in one line. Backslashes stand for themselves. */
export function cel({ raw }: TemplateStringsArray): string {
  return raw
    .join('')
    .trim()
    .replaceAll(/\s*\n\s*/g, ' ');
}
