import { expect, it } from 'vitest';
import { decodeExpressions } from './listed-expressions.ts';
import { attribute, nested, textAttribute } from './netlink.ts';
import { RuleEncoder } from './nft-expressions.ts';
import { be32Attribute } from './nft-messages.ts';

const LIST_ELEM = 1;

it('decodes what rules of netplug are written as', () => {
  const { expressions } = new RuleEncoder('t').encode({
    id: 'r',
    parts: [
      { kind: 'interface', direction: 'in', name: 'npl*' },
      { kind: 'member', side: 'source', family: 4, set: 's', isNegated: true },
      { kind: 'count' },
      { kind: 'jump', chain: 'c' },
    ],
  });
  expect(decodeExpressions(Buffer.concat(expressions))).toEqual([
    { kind: 'meta', to: 1, key: 'iifname' },
    { kind: 'cmp', from: 1, comparison: '==', value: Buffer.from('npl').toString('hex') },
    { kind: 'meta', to: 1, key: 'nfproto' },
    { kind: 'cmp', from: 1, comparison: '==', value: '02' },
    { kind: 'payload', to: 1, base: 'network', offset: 12, length: 4 },
    { kind: 'lookup', set: 's', from: 1, flags: 1 },
    { kind: 'counter' },
    { kind: 'immediate', to: 0, value: 'jump c' },
  ]);
});

it('names expressions, and numbers with names, that it does not know as not read, and survives truncated ones', () => {
  const [unknown, meta, inherited, truncated] = [
    ['telepathy', [be32Attribute(1, 1)]],
    ['meta', [be32Attribute(2, 99)]],
    ['constructor', []],
    ['log', [attribute(1, Buffer.from([0]))]],
  ].map(([name, data]) => nested(LIST_ELEM, [textAttribute(1, name as string), nested(2, data as Buffer[])]));
  const list = Buffer.concat([unknown!, meta!, inherited!, truncated!]);
  expect(decodeExpressions(list.subarray(0, list.length - 2))).toEqual([
    { kind: 'telepathy', content: 'not read' },
    { kind: 'meta', key: 'not read: 99' },
    { kind: 'constructor', content: 'not read' },
  ]);
  expect(decodeExpressions(list).at(-1)).toEqual({ kind: 'log', group: 'not read' });
});
