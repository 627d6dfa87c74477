import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseAddress } from '../net/address.ts';
import { type Cidr, cidrContains, compareCidrs, formatCidr, parseCidr, sameCidr, tryReadCidr } from '../net/cidr.ts';
import { MemberSet } from './member-set.ts';

const bytes = fc.constantFrom(0, 1, 2, 3, 128, 255);
const v4 = fc
  .tuple(bytes, bytes, fc.constantFrom(0, 1, 7, 8, 16, 24, 30, 31, 32))
  .map(([a, b, bits]) => `10.${String(a)}.0.${String(b)}/${String(bits)}`);
const v6 = fc
  .tuple(bytes, bytes, fc.constantFrom(0, 16, 64, 112, 127, 128))
  .map(([a, b, bits]) => `fd00:${a.toString(16)}::${b.toString(16)}/${String(bits)}`);
const cidr = fc.oneof(v4, v6).map((text) => tryReadCidr(text)?.cidr ?? parseCidr('::/0'));

/** What the list is by definition. */
function disjoint(members: readonly Cidr[]): Cidr[] {
  const distinct = members.filter((each, index) => members.findIndex((other) => sameCidr(other, each)) === index);
  return distinct
    .filter((each) => !distinct.some((other) => !sameCidr(other, each) && cidrContains(other, each)))
    .toSorted(compareCidrs);
}

describe('the members of a set', () => {
  it('are the disjoint CIDRs of all that were added and not taken back, and changes lead from one list to the next', () => {
    const steps = fc.array(fc.tuple(cidr, fc.boolean(), fc.nat()), { maxLength: 60 });
    fc.assert(
      fc.property(steps, (all) => {
        const [set, members] = [new MemberSet(), [] as Cidr[]];
        let listed = new Set<string>();
        for (const [each, isRemoval, which] of all) {
          const [gone] = isRemoval && members.length > 0 ? members.splice(which % members.length, 1) : [];
          if (gone === undefined) members.push(each);
          if (gone === undefined) set.add(each);
          else set.remove(gone);
          const expected = disjoint(members).map(formatCidr);
          expect(set.list().map(formatCidr)).toEqual(expected);
          const { added, removed } = set.takeChange();
          for (const one of removed.values()) expect(listed.delete(formatCidr(one))).toBe(true);
          for (const one of added.values()) listed = listed.add(formatCidr(one));
          expect([...listed].toSorted()).toEqual(expected.toSorted());
        }
        for (const address of ['10.0.0.1', '10.128.0.255', 'fd00:1::2', 'fd00::'].map(parseAddress))
          expect(set.contains(address)).toBe(members.some((one) => cidrContains(one, address)));
      }),
      { numRuns: 300 },
    );
  });

  it('take back nothing that was not added', () => {
    const set = new MemberSet();
    set.add(parseCidr('10.0.0.0/24'));
    set.remove(parseCidr('10.0.0.0/25'));
    set.remove(parseCidr('10.0.0.0/16'));
    expect(set.list().map(formatCidr)).toEqual(['10.0.0.0/24']);
  });

  it('cost time by what changes, not by what is there', () => {
    const nets = Array.from({ length: 60_000 }, (_, index) =>
      parseCidr(`10.${String(index >> 15)}.${String((index >> 7) & 255)}.${String((index & 127) * 2)}/31`),
    );
    const set = new MemberSet();
    const before = process.threadCpuUsage();
    for (const net of nets) set.add(net);
    expect(set.list()).toHaveLength(nets.length);
    set.add(parseCidr('10.0.0.0/8'));
    set.remove(parseCidr('10.0.0.0/8'));
    for (const net of nets) set.remove(net);
    const { user, system } = process.threadCpuUsage(before);
    expect(set.list()).toEqual([]);
    // With a pass over all for each net, it takes minutes.
    expect((user + system) / 1e6).toBeLessThan(5);
  });
});
