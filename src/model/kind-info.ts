import type * as v from 'valibot';
import type { Problem } from '../base/problem.ts';
import { type PartialOutput, readEntries } from './read-schema.ts';
import type { Metadata } from './resource.ts';

/** One column of a table of resources. */
export interface Column<R> {
  readonly title: string;
  /** Whether only the wide table has it. */
  readonly isWide: boolean;
  /** Where in the resource it stands; undefined for what the orchestrator's own tools show anyway. */
  readonly path: string | undefined;
  readonly show: (resource: R) => string;
}

/** How a kind is called and shown. */
export interface KindInfo<R> {
  /** In lower case, as are the short names: on a command line the letter case of a kind does not matter. */
  readonly plural: string;
  readonly shortNames: readonly string[];
  readonly scope: 'cluster' | 'namespace';
  readonly columns: readonly Column<R>[];
}

type Raw = Readonly<Record<string, unknown>>;

/** All there is to know of a kind of resources: reading, tables, schemas and reference pages are made from it. */
export interface KindDeclaration<R> extends KindInfo<R> {
  /** What it is for, in sentences. */
  readonly about: string;
  /** Whether this release acts on it; a sentence says which part it does not act on. */
  readonly enforced: boolean | string;
  readonly writtenBy: 'user' | 'netplug';
  /** Which names there are, when not any name will do. */
  readonly names?: 'default' | 'default-or-node';
  /** The fields of the spec; descriptions and defaults are theirs. */
  readonly fields: v.ObjectEntries;
  /** Fills in defaults that depend on other fields. */
  readonly complete?: (spec: Raw) => Raw;
  /** Breaches of the rules that join fields. */
  readonly check?: (raw: Raw) => Problem[];
  /** The rules that join fields, as sentences. */
  readonly rules?: readonly string[];
  /** The part of those rules that a JSON Schema can express, for the spec and for single fields. */
  readonly schemaRules?: { readonly spec?: Raw; readonly properties?: Readonly<Record<string, Raw>> };
  readonly example: { readonly metadata: Metadata; readonly spec: Raw };
}

const SPEC = { path: 'spec', code: 'resource/invalid' } as const;

/** Lets joint rules see as many fields as could be read; `refuse` takes the field below `spec` and what is wrong with it. */
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
