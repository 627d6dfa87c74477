import { isDeepStrictEqual } from 'node:util';
import { ownValue } from '../../../../base/own-value.ts';
import { never } from '../../../../base/errors.ts';
import { isRecord } from '../../../../model/read-schema.ts';

/** A text with holes, as `kubectl get -o jsonpath` takes it. */
export type Template = readonly PathPart[];
export type PathPart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'path'; readonly path: Path }
  | { readonly kind: 'range'; readonly path: Path; readonly body: Template };

/** A way into a document; it may lead to many places, or to none. */
export interface Path {
  readonly from: 'root' | 'current';
  readonly steps: readonly PathStep[];
}

export type PathStep =
  | { readonly kind: 'field'; readonly name: string }
  | { readonly kind: 'every' }
  /** To the thing itself and everything below it. */
  | { readonly kind: 'descend' }
  /** Counted from the end when negative. */
  | { readonly kind: 'index'; readonly at: number }
  | {
      readonly kind: 'slice';
      readonly from: number | undefined;
      readonly to: number | undefined;
      readonly by: number;
    }
  | { readonly kind: 'union'; readonly of: readonly PathStep[] }
  /** Without a comparison, those that have what `left` leads to. */
  | { readonly kind: 'filter'; readonly left: Operand; readonly comparison: Comparison | undefined };

export interface Comparison {
  readonly operator: Operator;
  readonly right: Operand;
}

export const OPERATORS = ['==', '!=', '<=', '>=', '<', '>'] as const;
export type Operator = (typeof OPERATORS)[number];

export type Operand =
  | { readonly kind: 'path'; readonly path: Path }
  | { readonly kind: 'value'; readonly value: string | number | boolean | null };

interface Place {
  readonly root: unknown;
  readonly current: unknown;
}

export function renderTemplate(template: Template, document: unknown): string {
  return template.map((part) => renderPart(part, { root: document, current: document })).join('');
}

/** Everything the path leads to in the document. */
export function valuesAt(path: Path, document: unknown): readonly unknown[] {
  return follow(path, { root: document, current: document });
}

/** Texts as they are, everything else as JSON. */
export function showValue(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function renderPart(part: PathPart, place: Place): string {
  switch (part.kind) {
    case 'text':
      return part.text;
    case 'path':
      return follow(part.path, place).map(showValue).join(' ');
    case 'range':
      return follow(part.path, place)
        .flatMap((current) => part.body.map((each) => renderPart(each, { ...place, current })))
        .join('');
    default:
      return never(part);
  }
}

function follow({ from, steps }: Path, { root, current }: Place): readonly unknown[] {
  let found: readonly unknown[] = [from === 'root' ? root : current];
  for (const step of steps) found = found.flatMap((value) => take(step, { root, current: value }));
  return found;
}

function take(step: PathStep, { root, current }: Place): readonly unknown[] {
  switch (step.kind) {
    case 'field':
      return isRecord(current) && Object.hasOwn(current, step.name) ? [ownValue(current, step.name)] : [];
    case 'every':
      return partsOf(current);
    case 'descend':
      return withEverythingBelow(current);
    case 'index':
      return Array.isArray(current) ? current.slice(step.at).slice(0, step.at === -1 ? undefined : 1) : [];
    case 'slice':
      return Array.isArray(current)
        ? current.slice(step.from, step.to).filter((_, index) => index % step.by === 0)
        : [];
    case 'union':
      return step.of.flatMap((each) => take(each, { root, current }));
    case 'filter':
      return (Array.isArray(current) ? partsOf(current) : []).filter((item) => passes(step, { root, current: item }));
    default:
      return never(step);
  }
}

function partsOf(value: unknown): readonly unknown[] {
  return typeof value === 'object' && value !== null ? Object.values(value) : [];
}

function withEverythingBelow(value: unknown): readonly unknown[] {
  return [value, ...partsOf(value).flatMap(withEverythingBelow)];
}

function passes({ left, comparison }: Extract<PathStep, { kind: 'filter' }>, place: Place): boolean {
  const found = operandsAt(left, place);
  if (comparison === undefined) return found.length > 0;
  const wanted = operandsAt(comparison.right, place);
  return found.some((one) => wanted.some((other) => compares(one, comparison.operator, other)));
}

function operandsAt(operand: Operand, place: Place): readonly unknown[] {
  return operand.kind === 'value' ? [operand.value] : follow(operand.path, place);
}

function compares(one: unknown, operator: Operator, other: unknown): boolean {
  if (operator === '==') return isDeepStrictEqual(one, other);
  if (operator === '!=') return !isDeepStrictEqual(one, other);
  const isOrdered =
    (typeof one === 'number' && typeof other === 'number') || (typeof one === 'string' && typeof other === 'string');
  if (!isOrdered) return false;
  switch (operator) {
    case '<':
      return one < other;
    case '<=':
      return one <= other;
    case '>':
      return one > other;
    case '>=':
      return one >= other;
    default:
      return never(operator);
  }
}
