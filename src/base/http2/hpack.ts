// Header compression for HTTP/2 (HPACK, RFC 7541): encodes without compression, decodes everything.

export type HeaderField = readonly [name: string, value: string];

/** Breach of the encoding by the peer. The connection cannot be used any further. */
export class HpackError extends Error {
  override readonly name = 'HpackError';
}

/** Returns a header block of literals that no table keeps, so that blocks do not depend on each other. */
export function encodeHeaders(fields: readonly HeaderField[]): Buffer {
  return Buffer.concat(fields.flatMap(([name, value]) => [LITERAL, encodeString(name), encodeString(value)]));
}

/** Literal header field without indexing, with a new name. */
const LITERAL = Buffer.of(0);

function encodeString(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1');
  return Buffer.concat([encodeLength(bytes.length), bytes]);
}

/** Encodes an integer with a prefix of 7 bits, whose first bit stays 0: no Huffman code. */
function encodeLength(length: number): Buffer {
  if (length < 0x7f) return Buffer.of(length);
  const bytes = [0x7f];
  let rest = length - 0x7f;
  for (; rest >= 0x80; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80);
  return Buffer.of(...bytes, rest);
}

/** Size of the dynamic table, unless settings say otherwise. */
const TABLE_BYTES = 4096;
/** Size that an entry counts in the dynamic table beside its text. */
const ENTRY_BYTES = 32;

/** Decodes the header blocks of one connection, in their order. */
export class HeaderDecoder {
  /** The newest entry first. */
  #dynamic: HeaderField[] = [];
  #limit = TABLE_BYTES;

  /** @throws HpackError */
  decode(block: Buffer): HeaderField[] {
    const reader = new Reader(block);
    const fields: HeaderField[] = [];
    while (!reader.isAtEnd) {
      const first = reader.peek();
      if (first >= 0x80) fields.push(this.#entry(reader.integer(7)));
      else if (first >= 0x40) fields.push(this.#insert(this.#literal(reader, 6)));
      else if (first < 0x20) fields.push(this.#literal(reader, 4));
      else if (fields.length === 0) this.#resize(reader.integer(5));
      else throw new HpackError('the size of the table changes inside a header block');
    }
    return fields;
  }

  #literal(reader: Reader, prefixBits: number): HeaderField {
    const index = reader.integer(prefixBits);
    const name = index === 0 ? reader.string() : this.#entry(index)[0];
    return [name, reader.string()];
  }

  #entry(index: number): HeaderField {
    const found = STATIC[index - 1] ?? this.#dynamic[index - 1 - STATIC.length];
    if (found === undefined) throw new HpackError(`no header field has index ${String(index)}`);
    return found;
  }

  #insert(field: HeaderField): HeaderField {
    this.#dynamic.unshift(field);
    this.#evict();
    return field;
  }

  #resize(limit: number): void {
    if (limit > TABLE_BYTES) throw new HpackError(`a table of ${String(limit)} bytes is too large`);
    this.#limit = limit;
    this.#evict();
  }

  #evict(): void {
    let bytes = 0;
    const kept = this.#dynamic.findIndex(([name, value]) => {
      bytes += name.length + value.length + ENTRY_BYTES;
      return bytes > this.#limit;
    });
    if (kept >= 0) this.#dynamic = this.#dynamic.slice(0, kept);
  }
}

class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  peek(): number {
    const byte = this.#bytes[this.#at];
    if (byte === undefined) throw new HpackError('a header block ends early');
    return byte;
  }

  integer(prefixBits: number): number {
    const most = 2 ** prefixBits - 1;
    let value = this.#next() & most;
    if (value < most) return value;
    for (let shift = 0; shift <= MOST_SHIFT; shift += 7) {
      const byte = this.#next();
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
    throw new HpackError('an integer is too large');
  }

  string(): string {
    const isHuffman = this.peek() >= 0x80;
    const length = this.integer(7);
    const bytes = this.#bytes.subarray(this.#at, this.#at + length);
    if (bytes.length < length) throw new HpackError('a header block ends early');
    this.#at += length;
    return isHuffman ? decodeHuffman(bytes) : bytes.toString('latin1');
  }

  #next(): number {
    const byte = this.peek();
    this.#at += 1;
    return byte;
  }
}

/** Shift of the last of four bytes after the prefix: integers have at most 28 bits. */
const MOST_SHIFT = 21;

function decodeHuffman(bytes: Buffer): string {
  const rows = (huffman ??= codesByLength());
  let text = '';
  let code = 0;
  let length = 0;
  for (const byte of bytes) {
    for (let bit = 7; bit >= 0; bit -= 1) {
      code = code * 2 + ((byte >> bit) & 1);
      length += 1;
      const row = rows[length];
      const symbol = row?.symbols[code - row.first];
      if (symbol === END_OF_STRING) throw new HpackError('a string holds the end-of-string symbol');
      if (symbol === undefined) continue;
      text += String.fromCharCode(symbol);
      code = 0;
      length = 0;
    }
  }
  // The rest of the last byte is the beginning of the end-of-string symbol: ones only.
  if (length > 7 || code !== 2 ** length - 1) throw new HpackError('a string ends inside a code');
  return text;
}

interface CodesOfLength {
  /** The code of the first symbol; the others follow it. */
  readonly first: number;
  readonly symbols: readonly number[];
}

const END_OF_STRING = 256;

/** Lengths in bits of the codes of RFC 7541, appendix B, by symbol. Codes of one length ascend with their symbols. */
// prettier-ignore
const CODE_BITS: readonly number[] = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/** By length in bits; made when first needed. */
let huffman: readonly CodesOfLength[] | undefined;

function codesByLength(): readonly CodesOfLength[] {
  const byLength = Array.from({ length: Math.max(...CODE_BITS) + 1 }, (): number[] => []);
  for (const [symbol, bits] of CODE_BITS.entries()) byLength[bits]?.push(symbol);
  let next = 0;
  return byLength.map((symbols) => {
    const first = next;
    next = (first + symbols.length) * 2;
    return { first, symbols };
  });
}

/** RFC 7541, appendix A. Indices begin at 1. */
// prettier-ignore
const STATIC: readonly HeaderField[] = [
  [':authority', ''], [':method', 'GET'], [':method', 'POST'], [':path', '/'], [':path', '/index.html'], [':scheme', 'http'], [':scheme', 'https'], [':status', '200'], [':status', '204'], [':status', '206'], [':status', '304'], [':status', '400'], [':status', '404'], [':status', '500'], ['accept-charset', ''], ['accept-encoding', 'gzip, deflate'], ['accept-language', ''], ['accept-ranges', ''], ['accept', ''], ['access-control-allow-origin', ''], ['age', ''], ['allow', ''], ['authorization', ''], ['cache-control', ''], ['content-disposition', ''], ['content-encoding', ''], ['content-language', ''], ['content-length', ''], ['content-location', ''], ['content-range', ''], ['content-type', ''], ['cookie', ''], ['date', ''], ['etag', ''], ['expect', ''], ['expires', ''], ['from', ''], ['host', ''], ['if-match', ''], ['if-modified-since', ''], ['if-none-match', ''], ['if-range', ''], ['if-unmodified-since', ''], ['last-modified', ''], ['link', ''], ['location', ''], ['max-forwards', ''], ['proxy-authenticate', ''], ['proxy-authorization', ''], ['range', ''], ['referer', ''], ['refresh', ''], ['retry-after', ''], ['server', ''], ['set-cookie', ''], ['strict-transport-security', ''], ['transfer-encoding', ''], ['user-agent', ''], ['vary', ''], ['via', ''], ['www-authenticate', ''],
];
