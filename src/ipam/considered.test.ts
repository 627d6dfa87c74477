import { describe, expect, it } from 'vitest';
import { poolOf } from '../../test/support/fixtures.ts';
import { decodePools } from './choose-pools.ts';
import { consideredFor } from './considered.ts';

const named = (...names: string[]) =>
  decodePools(names.map((name, at) => ({ value: poolOf(name, `10.${String(at)}.0.0/16`), version: '' })));

describe('the pools considered for an address', () => {
  it('are all named when they are few, the one that gave the address first', () => {
    const [a, b] = named('a', 'b');
    const verdicts = [
      { pool: a!, verdict: 'disabled' },
      { pool: b!, verdict: 'eligible' },
    ] as const;
    expect(consideredFor({ verdicts }, b!)).toEqual(['b: eligible', 'a: disabled']);
  });

  it('are counted by verdict beyond the first, and take at most 512 bytes', () => {
    const pools = named(...Array.from({ length: 250 }, (_, at) => `${'x'.repeat(240)}-${String(at)}`));
    const words = ['eligible', 'not requested', 'disabled', 'not for this use', 'does not select the node'] as const;
    const verdicts = pools.map((pool, at) => ({ pool, verdict: words[at % words.length] ?? 'eligible' }));
    const considered = consideredFor({ verdicts }, pools[200]!);
    expect(considered).toHaveLength(5);
    expect(considered[0]).toBe(`${'x'.repeat(47)}…: eligible`);
    expect(considered[4]).toBe(
      '246 more: 50 not for this use, 50 does not select the node, 48 eligible, 49 not requested, 49 disabled',
    );
    expect(Buffer.byteLength(JSON.stringify(considered))).toBeLessThan(512);
  });
});
