import * as v from 'valibot';
import { KINDS } from './kinds.ts';
import { POLICY_FIELDS } from './policy.ts';
import { isDerivedName, WRITTEN_RULE } from './policy-names.ts';
import { ENTITY_FIELDS, RULE_FIELDS } from './policy-rule.ts';
import { isRecord, readEntries } from './read-schema.ts';

type Raw = Readonly<Record<string, unknown>>;
const PLACE = { path: '', code: 'resource/invalid' } as const;
const SELECTORS = ['selector', 'serviceAccountSelector'] as const;
const DIRECTIONS = ['ingress', 'egress'] as const;

/**
 * Returns a stored policy or profile with what can be read of its rules, which keep their numbers. An unreadable rule is
 * left out; as a `Deny`, it keeps its readable parts. Returns undefined for another record.
 */
export function withReadableRules(raw: unknown): Raw | undefined {
  if (!isRecord(raw) || !isRecord(raw['spec'])) return undefined;
  const { kind, spec, metadata } = raw;
  if (kind !== 'NetworkPolicy' && kind !== 'GlobalNetworkPolicy' && kind !== 'Profile') return undefined;
  // Without types, the directions are those of the rules as written: one without a readable rule stays isolated.
  const directed = spec['types'] === undefined ? (KINDS[kind].complete?.(spec) ?? spec) : spec;
  const isDerived = isRecord(metadata) && isDerivedName(kind, String(metadata['name']));
  const lists = DIRECTIONS.flatMap((direction) => {
    const rules = spec[direction];
    return Array.isArray(rules)
      ? [[direction, rules.flatMap((rule, position) => readableRule(rule, position, isDerived))] as const]
      : [];
  });
  return { ...raw, spec: { ...directed, ...Object.fromEntries(lists) } };
}

/** Selectors of a policy as they are written, because they cannot be read. */
export type WrittenSelectors = Readonly<Partial<Record<(typeof SELECTORS)[number], string>>>;

/** Returns the unreadable selectors of a NetworkPolicy, and the policy without them; undefined for another record. */
export function withoutSelectors(raw: unknown): { readonly rest: Raw; readonly written: WrittenSelectors } | undefined {
  const readable = withReadableRules(raw);
  if (readable?.['kind'] !== 'NetworkPolicy' || !isRecord(readable['spec'])) return undefined;
  const { spec } = readable;
  const unreadable = SELECTORS.filter((field) => !v.safeParse(POLICY_FIELDS[field], spec[field]).success);
  if (unreadable.length === 0) return undefined;
  const isKept = ([field]: readonly [string, unknown]): boolean => !unreadable.some((each) => each === field);
  return {
    rest: { ...readable, spec: Object.fromEntries(Object.entries(spec).filter(isKept)) },
    written: Object.fromEntries(unreadable.map((field) => [field, textOf(spec[field])])),
  };
}

/** JSON is no selector. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Returns a policy of the same name that decides nothing, for an unreadable one that is staged; else undefined. */
export function stagedAlone(raw: unknown): Raw | undefined {
  if (!isRecord(raw) || raw['kind'] !== 'NetworkPolicy' || !isRecord(raw['spec'])) return undefined;
  return raw['spec']['staged'] === true ? { ...raw, spec: { staged: true } } : undefined;
}

/** The rules of a policy that stands for a Kubernetes one have numbers. What a user noted on others numbers nothing. */
function readableRule(rule: unknown, position: number, isDerived: boolean): readonly Raw[] {
  if (!isRecord(rule)) return [];
  const { values, complete } = readEntries(RULE_FIELDS, rule, { ...PLACE, problems: [] });
  if (complete === undefined && values.action !== 'Deny') return [];
  const readable =
    complete === undefined ? { ...values, ...readableEnd(rule, 'source'), ...readableEnd(rule, 'destination') } : rule;
  const notes = values.metadata?.annotations ?? {};
  const number = (isDerived ? notes[WRITTEN_RULE] : undefined) ?? String(position);
  return [{ ...readable, metadata: { ...values.metadata, annotations: { ...notes, [WRITTEN_RULE]: number } } }];
}

function readableEnd(rule: Raw, side: 'source' | 'destination'): Raw {
  const end = rule[side];
  return isRecord(end) ? { [side]: readEntries(ENTITY_FIELDS, end, { ...PLACE, problems: [] }).values } : {};
}
