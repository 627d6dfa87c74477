import { pack, Packed } from '../base/packed.ts';
import type { ApiObject } from './objects.ts';

/** Name under which the rest of a large object is kept. It cannot come from JSON, as its value is no JSON. */
const REST = 'packed';

/** Returns the object with all but its metadata packed, if that is large. */
export function packedObject(object: ApiObject): ApiObject {
  if (isPacked(object)) return object;
  const { metadata, ...rest } = object;
  const packed = pack(rest);
  return packed instanceof Packed ? { metadata, [REST]: packed } : object;
}

export function isPacked(object: ApiObject): boolean {
  return object[REST] instanceof Packed;
}

/** Returns the object as it was before it was packed. */
export function wholeObject({ metadata, ...rest }: ApiObject): ApiObject {
  const packed = rest[REST];
  return packed instanceof Packed ? { metadata, ...(packed as Packed<object>).value() } : { metadata, ...rest };
}
