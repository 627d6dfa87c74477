import { expect, it } from 'vitest';
import { changeReader } from './change-messages.ts';
import { attribute, encodeMessage, textAttribute } from './netlink.ts';

const [NEWRULE, NEWSETELEM, NEWGEN] = [0xa06, 0xa0c, 0xa0f];
const [INET, IP] = [1, 2];
const [OWN, OTHER] = [7, 0x80000001];

function message(type: number, port: number, family: number, ...attributes: readonly Buffer[]): Buffer {
  const bytes = encodeMessage(
    { type, flags: 0, body: Buffer.concat([Buffer.from([family, 0, 0, 0]), ...attributes]) },
    0,
  );
  bytes.writeUInt32LE(port, 12);
  return bytes;
}

const rule = (table: string, port = OTHER, family = INET): Buffer =>
  message(NEWRULE, port, family, textAttribute(1, table));
const end = (port = OTHER): Buffer => message(NEWGEN, port, 0, textAttribute(3, 'nft'));

it('joins the messages of a transaction, over several readings, and ignores those of own sockets', () => {
  const read = changeReader(['a', 'b'], (port) => port === OWN);
  expect(read(Buffer.concat([rule('a', OWN), rule('c', OWN), end(OWN)]))).toEqual([]);
  expect(read(Buffer.concat([rule('b'), rule('b')]))).toEqual([]);
  expect(read(Buffer.concat([rule('a'), end(), rule('a'), end()]))).toEqual([
    { tables: ['b', 'a'], program: 'nft' },
    { tables: ['a'], program: 'nft' },
  ]);
});

it('says that chains or rules of other tables have changed, and nothing of elements of their sets', () => {
  const read = changeReader(['a', 'b'], () => false);
  const others = { tables: [], program: 'nft', hasChangedOthers: true };
  expect(read(Buffer.concat([rule('c'), end(), rule('b', OTHER, IP), end()]))).toEqual([others, others]);
  expect(read(Buffer.concat([rule('c'), rule('a'), end()]))).toEqual([{ ...others, tables: ['a'] }]);
  expect(read(Buffer.concat([message(NEWSETELEM, OTHER, IP, textAttribute(1, 'c')), end()]))).toEqual([]);
});

it('survives messages that end early', () => {
  const read = changeReader(['a'], () => false);
  const cut = message(NEWRULE, OTHER, INET, Buffer.from([200, 0, 1, 0]));
  expect(
    read(Buffer.concat([message(NEWRULE, OTHER, INET), cut, message(NEWGEN, OTHER, 0, attribute(1, Buffer.alloc(4)))])),
  ).toMatchObject([{ tables: [] }]);
});
