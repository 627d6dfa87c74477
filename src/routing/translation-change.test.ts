import { expect, it } from 'vitest';
import { parseAddress } from '../net/address.ts';
import { parseCidr } from '../net/cidr.ts';
import {
  bothTranslations,
  formatTranslations,
  isNoChange,
  readTranslations,
  translationChange,
  translationsOf,
  type TranslationRecord,
} from './translation-change.ts';

function record(floating: Readonly<Record<string, string>>, pools: readonly string[] = []): TranslationRecord {
  const pairs = Object.entries(floating).map((pair) => pair.map(parseAddress) as [never, never]);
  return translationsOf({
    floating: pairs.map(([external, internal]) => ({ external, internal })),
    natPools: pools.map(parseCidr),
  });
}

it('names addresses that come, go or lead elsewhere, with their pods, and none that stay', () => {
  const before = record({ '203.0.113.1': '10.0.0.1', '203.0.113.2': '10.0.0.2', '203.0.113.3': '10.0.0.3' });
  const after = record({ '203.0.113.1': '10.0.0.1', '203.0.113.2': '10.0.0.9', '2001:db8::1': 'fd00::1' });
  const { floating, pods, isOfAll } = translationChange(before, after);
  expect([...floating]).toEqual(['203.0.113.2', '203.0.113.3', '2001:db8::1']);
  expect([...pods]).toEqual(['10.0.0.2', '10.0.0.3', '10.0.0.9', 'fd00::1']);
  expect(isOfAll).toBe(false);
  expect(isNoChange(translationChange(after, after))).toBe(true);
});

it('concerns all flows when a pool changes, and names those that were switched off', () => {
  const { lostPools, isOfAll } = translationChange(record({}, ['10.0.0.0/8']), record({}, ['fd00::/48']));
  expect([[...lostPools], isOfAll]).toEqual([['10.0.0.0/8'], true]);
});

it('concerns all flows, those of both states, while a change is unfinished', () => {
  const [before, after] = [
    record({ '203.0.113.1': '10.0.0.1' }, ['10.0.0.0/8']),
    record({ '203.0.113.1': '10.0.0.2' }),
  ];
  const left = readTranslations(formatTranslations(bothTranslations(before, after)));
  const { floating, lostPools, isOfAll } = translationChange(left, after);
  expect([[...floating], [...lostPools], isOfAll]).toEqual([['203.0.113.1'], ['10.0.0.0/8'], true]);
});

it('reads what it has written, and skips what is something else', () => {
  const written = record({ '203.0.113.1': '10.0.0.1', '2001:db8::1': 'fd00::1' }, ['10.0.0.0/8', 'fd00::/48']);
  expect(readTranslations(formatTranslations(written))).toEqual(written);
  expect(readTranslations('floating 203.0.113.1\nfloating x y\npool ../etc\n\u0000\nunfinished?\n')).toEqual(
    record({}),
  );
});
