import { ownValue } from '../base/own-value.ts';
import { at, foundNotAllowed, type Problem } from '../base/problem.ts';
import { type Schema, shapeOf, unwrapped } from './schema-shape.ts';

/**
 * Returns a problem for each list in place of a declared object, at any depth. The schema library treats such a list as
 * an object without fields, and a policy rule without fields applies to all traffic.
 */
export function misplacedLists(
  schema: Schema,
  value: unknown,
  { path, code }: Pick<Problem, 'path' | 'code'>,
): Problem[] {
  const shape = shapeOf(schema);
  const bare = unwrapped(schema);
  const isObject = shape.kind === 'object' || bare.type === 'record';
  if (isObject && Array.isArray(value)) {
    const allowed = 'message' in bare && typeof bare.message === 'string' ? bare.message : 'an object';
    return [{ path, message: foundNotAllowed(value, allowed), code }];
  }
  if (typeof value !== 'object' || value === null || shape.kind === 'value') return [];
  if (shape.kind === 'array') {
    if (!Array.isArray(value)) return [];
    return value.flatMap((item: unknown, index) => misplacedLists(shape.item, item, { path: at(path, index), code }));
  }
  return Object.entries(value).flatMap(([key, field]: [string, unknown]) => {
    const declared = ownValue(shape.entries, key);
    return declared === undefined ? [] : misplacedLists(declared, field, { path: at(path, key), code });
  });
}
