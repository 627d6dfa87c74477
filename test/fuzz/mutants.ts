// What damage, a newer release or an attacker makes of a valid record.
import * as fc from 'fast-check';
import { never } from '../../src/base/errors.ts';

const ODD_TEXTS = [
  '',
  ' ',
  '0',
  '-1',
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  '10.0.0.0/33',
  '10.0.0.1/24',
  '010.0.0.1',
  '1..1.1',
  '::1%eth0',
  '::ffff:1.2.3.4',
  'fd00::/122',
  '10.0.0.0/0',
  '::/0',
  '0-65535',
  '0-99999,0',
  'all()',
  'a in {"b", ',
  '!!!!has(a)',
  '\u0000',
  '\ud800',
  '\u202e',
  'x'.repeat(10_000),
  '('.repeat(5000),
  '!'.repeat(20_000),
  '{"a":1}',
  '["10.0.0.1"]',
  '['.repeat(2000),
];
const ODD_VALUES = [
  null,
  true,
  false,
  0,
  -0,
  -1,
  1.5,
  65_536,
  2 ** 31,
  2 ** 53,
  1e308,
  [],
  {},
  [[]],
  [null],
  { a: {} },
];

/** A value that few fields allow. */
export const oddValue: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(...ODD_TEXTS),
  fc.constantFrom<unknown>(...ODD_VALUES),
  fc.string({ unit: 'binary' }),
  fc.integer(),
  fc.double(),
  fc.jsonValue({ maxDepth: 3 }),
);

const edit = fc.record({
  kind: fc.constantFrom('replace', 'delete', 'add', 'copy'),
  at: fc.nat(),
  from: fc.nat(),
  key: fc.oneof(fc.constantFrom(...ODD_TEXTS), fc.string()),
  value: oddValue,
});
type Edit = typeof edit extends fc.Arbitrary<infer T> ? T : never;

/** One of the JSON values with up to five changes anywhere in it, as it comes out of a text. */
export function jsonMutants(corpus: readonly unknown[]): fc.Arbitrary<unknown> {
  return fc
    .tuple(fc.constantFrom(...corpus), fc.array(edit, { maxLength: 5 }))
    .map(([base, edits]) => edits.reduce<unknown>(applyEdit, structuredClone(base)))
    .map((value) => JSON.parse(JSON.stringify(value) ?? 'null') as unknown);
}

type Container = Record<string, unknown>;

function applyEdit(root: unknown, { kind, at, from, key, value: odd }: Edit): unknown {
  const value = structuredClone(odd);
  const places = placesIn(root);
  const place = places[at % Math.max(1, places.length)];
  if (place === undefined) return kind === 'replace' ? value : root;
  const { container, name } = place;
  const copied = places[from % places.length];
  if (kind === 'delete') delete container[name];
  else if (kind === 'add') define(container, Array.isArray(container) ? String(container.length) : key, value);
  else define(container, name, kind === 'copy' ? structuredClone(copied?.container[copied.name]) : value);
  return root;
}

/** As JSON.parse does it, also for `__proto__`. */
function define(container: Container, name: string, value: unknown): void {
  Object.defineProperty(container, name, { value, enumerable: true, configurable: true, writable: true });
}

function placesIn(value: unknown): { readonly container: Container; readonly name: string }[] {
  if (typeof value !== 'object' || value === null) return [];
  // Arrays are containers too, with indexes as names.
  const container = value as Container;
  return Object.keys(container).flatMap((name) => [{ container, name }, ...placesIn(container[name])]);
}

const cut = fc.record({
  kind: fc.constantFrom('flip', 'insert', 'remove', 'repeat', 'truncate'),
  at: fc.nat(),
  length: fc.integer({ min: 1, max: 64 }),
  bytes: fc.uint8Array({ minLength: 1, maxLength: 16 }),
});
type Cut = typeof cut extends fc.Arbitrary<infer T> ? T : never;

/** The bytes with up to five changes anywhere in them. */
export function byteMutants(originals: fc.Arbitrary<Buffer>): fc.Arbitrary<Buffer> {
  return fc.tuple(originals, fc.array(cut, { maxLength: 5 })).map(([bytes, cuts]) => cuts.reduce(applyCut, bytes));
}

export function applyCut(bytes: Buffer, { kind, at, length, bytes: fresh }: Cut): Buffer {
  const start = at % (bytes.length + 1);
  const [before, after] = [bytes.subarray(0, start), bytes.subarray(start)];
  switch (kind) {
    case 'flip':
      return Buffer.concat([before, fresh, after.subarray(fresh.length)]);
    case 'insert':
      return Buffer.concat([before, fresh, after]);
    case 'remove':
      return Buffer.concat([before, after.subarray(length)]);
    case 'repeat':
      return Buffer.concat([before, after.subarray(0, length), after]);
    case 'truncate':
      return before;
    default:
      return never(kind);
  }
}

/** Up to five changes of bytes, to be applied with `applyCut`. */
export const cuts = fc.array(cut, { minLength: 1, maxLength: 5 });
