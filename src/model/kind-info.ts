import type * as v from 'valibot';
import type { Problem } from '../base/problem.ts';
import { type PartialOutput, readEntries } from './read-schema.ts';
import type { Metadata } from './resource.ts';

/** One column of a table of resources. */
export interface Column<R> {
  readonly title: string;
  /** Whether only the wide table shows it. */
  readonly isWide: boolean;
  /** Path in the resource; undefined for a column that the orchestrator's own tools show anyway. */
  readonly path: string | undefined;
  readonly show: (resource: R) => string;
}

/** Names and table columns of a kind. */
export interface KindInfo<R> {
  /** In lower case, as are the short names: on a command line the letter case of a kind does not matter. */
  readonly plural: string;
  readonly shortNames: readonly string[];
  readonly scope: 'cluster' | 'namespace';
  readonly columns: readonly Column<R>[];
}

type Raw = Readonly<Record<string, unknown>>;

/** The declaration of a kind of resources, from which decoder, tables, schemas and reference pages are derived. */
export interface KindDeclaration<R> extends KindInfo<R> {
  /** Its purpose, in sentences. */
  readonly about: string;
  /** Whether this release enforces it; a sentence names the part that is not enforced. */
  readonly enforced: boolean | string;
  readonly writtenBy: 'user' | 'netplug';
  /** The allowed names; undefined when any name is allowed. */
  readonly names?: 'default' | 'default-or-node';
  /** The fields of the spec with their descriptions and defaults. */
  readonly fields: v.ObjectEntries;
  /** The fields of the status, which netplug writes; undefined for a kind without one. */
  readonly status?: v.ObjectEntries;
  /** Fills in defaults that depend on other fields. */
  readonly complete?: (spec: Raw) => Raw;
  /** Returns violations of constraints between fields. */
  readonly check?: (raw: Raw) => Problem[];
  /** The constraints between fields, as sentences. */
  readonly rules?: readonly string[];
  /** The part of those constraints that a JSON Schema can express, for the spec and for single fields. */
  readonly schemaRules?: { readonly spec?: Raw; readonly properties?: Readonly<Record<string, Raw>> };
  readonly example: { readonly metadata: Metadata; readonly spec: Raw };
}

const SPEC = { path: 'spec', code: 'resource/invalid' } as const;

/** Returns a check of constraints between fields, which sees every valid field. `refuse` takes a field below `spec` and its problem. */
export function jointRules<const E extends v.ObjectEntries>(
  fields: E,
  check: (spec: PartialOutput<E>, refuse: Refuse) => void,
): (raw: Raw) => Problem[] {
  return (raw) => {
    const problems: Problem[] = [];
    const refuse: Refuse = (field, message) => {
      problems.push({ path: `spec.${field}`, message, code: SPEC.code });
    };
    check(readEntries(fields, raw, { ...SPEC, problems: [] }).values, refuse);
    return problems;
  };
}
export type Refuse = (field: string, message: string) => void;

export function readSpec(
  { fields, complete }: Pick<KindDeclaration<never>, 'fields' | 'complete'>,
  raw: Raw,
  problems: Problem[],
): Raw | undefined {
  const spec = readEntries(fields, raw, { ...SPEC, problems }).complete;
  return spec === undefined || complete === undefined ? spec : complete(spec);
}

export function namespaceColumn(): Column<{ readonly metadata: Metadata }> {
  return column('NAMESPACE', undefined, ({ metadata }) => metadata.namespace ?? '');
}

export function nameColumn(): Column<{ readonly metadata: Metadata }> {
  return column('NAME', undefined, ({ metadata }) => metadata.name);
}

export function column<R>(title: string, path: string | undefined, show: (resource: R) => string): Column<R> {
  return { title, isWide: false, path, show };
}

export function wide<R>(title: string, path: string, show: (resource: R) => string): Column<R> {
  return { title, isWide: true, path, show };
}

/** Shows labels in one cell. */
export function labelsText(labels: Readonly<Record<string, string>> = {}): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
}
