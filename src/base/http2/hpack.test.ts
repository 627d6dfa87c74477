import { expect, it } from 'vitest';
import { encodeHeaders, HeaderDecoder, type HeaderField, HpackError } from './hpack.ts';

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');

/** Responses of RFC 7541, appendix C.6, with Huffman codes and a table of 256 bytes, which evicts entries. */
const RESPONSES: readonly (readonly [string, readonly HeaderField[]])[] = [
  [
    '3fe1 0148 8264 0258 85ae c377 1a4b 6196 d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff 6e91 9d29 ad17 1863 c78f 0b97 c8e9 ae82 ae43 d3',
    [
      [':status', '302'],
      ['cache-control', 'private'],
      ['date', 'Mon, 21 Oct 2013 20:13:21 GMT'],
      ['location', 'https://www.example.com'],
    ],
  ],
  [
    '4883 640e ffc1 c0bf',
    [
      [':status', '307'],
      ['cache-control', 'private'],
      ['date', 'Mon, 21 Oct 2013 20:13:21 GMT'],
      ['location', 'https://www.example.com'],
    ],
  ],
  [
    '88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07',
    [
      [':status', '200'],
      ['cache-control', 'private'],
      ['date', 'Mon, 21 Oct 2013 20:13:22 GMT'],
      ['location', 'https://www.example.com'],
      ['content-encoding', 'gzip'],
      ['set-cookie', 'foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1'],
    ],
  ],
];

it('decodes the responses of RFC 7541, appendix C.6, of one connection', () => {
  const decoder = new HeaderDecoder();
  for (const [block, fields] of RESPONSES) expect(decoder.decode(hex(block))).toEqual(fields);
});

it('decodes what it encodes, also long values and all characters of Latin-1', () => {
  const all = String.fromCharCode(...Array.from({ length: 256 }, (_, code) => code));
  const fields: HeaderField[] = [
    [':path', '/etcdserverpb.KV/Range'],
    ['long', 'x'.repeat(100_000)],
    ['border', 'y'.repeat(127)],
    ['all', all],
    ['empty', ''],
  ];
  expect(new HeaderDecoder().decode(encodeHeaders(fields))).toEqual(fields);
});

it('encodes blocks that leave the tables of the peer unchanged', () => {
  const decoder = new HeaderDecoder();
  decoder.decode(encodeHeaders([['name', 'value']]));
  expect(() => decoder.decode(hex('be'))).toThrow(HpackError);
});

it.each([
  ['index 0', '80'],
  ['an index that no table has', 'be'],
  ['a block that ends inside an integer', 'ff'],
  ['an integer without end', 'ffffffffffff7f'],
  ['a block that ends inside a string', '0003 6162'],
  ['a string that ends inside a Huffman code', '0081 0000'],
  ['a string with more than seven bits of padding', '0082 1fff 00'],
  ['a string with the end-of-string symbol', '0084 ffff fffc 00'],
  ['a table size after a header field', '8220'],
  ['a table that is larger than agreed', '3fe2 1f'],
])('refuses %s', (_what, block) => {
  expect(() => new HeaderDecoder().decode(hex(block))).toThrow(HpackError);
});
