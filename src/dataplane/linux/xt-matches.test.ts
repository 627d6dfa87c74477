import { expect, it } from 'vitest';
import { matchFields } from './xt-matches.ts';

it('are read where many firewalls have them, and in the revisions that are known', () => {
  const addrtype = Buffer.from('0000040002000000', 'hex');
  const conntrack = Buffer.alloc(168);
  conntrack.writeUInt16LE(0x1, 146);
  conntrack.writeUInt16LE(0x6, 150);
  expect(matchFields('addrtype', 1, addrtype)).toEqual({ sourceTypes: 0, destinationTypes: 4, flags: 2 });
  expect(matchFields('conntrack', 3, conntrack)).toEqual({ flags: 1, inverted: 0, states: 6 });
  for (const [name, revision, info] of [
    ['addrtype', 0, addrtype],
    ['addrtype', 1, addrtype.subarray(0, 7)],
    ['conntrack', 1, conntrack],
    ['comment', 0, conntrack],
  ] as const)
    expect(matchFields(name, revision, info)).toEqual({});
});
