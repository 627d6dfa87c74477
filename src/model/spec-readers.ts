import type * as v from 'valibot';
import type { Problem } from '../base/problem.ts';
import { type KindDeclaration, readSpec } from './kind-info.ts';
import { KIND_NAMES, KINDS, type ResourceKind } from './kinds.ts';

type Raw = Readonly<Record<string, unknown>>;

/** The decoder of the spec of one kind. */
export interface SpecReader extends Pick<KindDeclaration<never>, 'scope' | 'names'> {
  readonly kind: ResourceKind;
  readonly entries: v.ObjectEntries;
  /** The names of the entries. */
  readonly fields: readonly string[];
  /** Returns the known fields with their defaults, or undefined when a problem was added. */
  read(raw: Raw, problems: Problem[]): Raw | undefined;
  /** Returns violations of constraints between fields. */
  check(raw: Raw): Problem[];
}

export function findSpecReader(word: unknown): SpecReader | undefined {
  const kind = KIND_NAMES.find((known) => known === word);
  if (kind === undefined) return undefined;
  const { scope, names, fields, complete, check } = KINDS[kind];
  return {
    kind,
    scope,
    ...(names === undefined ? {} : { names }),
    entries: fields,
    fields: Object.keys(fields),
    read: (raw, problems) => readSpec({ fields, ...(complete === undefined ? {} : { complete }) }, raw, problems),
    check: (raw) => check?.(raw) ?? [],
  };
}
