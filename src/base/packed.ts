import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';

/** Characters of text from which a value is packed. */
const LARGE = 65_536;

/**
 * A large JSON value as compressed text. As objects, what people write takes up to twenty times what their cluster stores; what is
 * kept only to be compared, or read once more, is kept so.
 */
export class Packed<T> {
  readonly bytes: Uint8Array;

  constructor(text: string) {
    this.bytes = zstdCompressSync(text);
  }

  value(): T {
    // Written by the only constructor, from a T.
    return JSON.parse(zstdDecompressSync(this.bytes).toString()) as T;
  }
}

/** Returns the JSON value as it is, or packed when it is large. Equal values give equal bytes. */
export function pack<T>(value: T): T | Packed<T> {
  const text = JSON.stringify(value);
  return text === undefined || text.length < LARGE ? value : new Packed<T>(text);
}

export function unpack<T>(value: T | Packed<T>): T {
  return value instanceof Packed ? value.value() : value;
}
