import { describe, expect, it } from 'vitest';
import { newestLines } from './newest-lines.ts';

describe('newestLines', () => {
  it('returns the last whole lines within the limit', () => {
    expect(newestLines('one\ntwo\nthree\n', 100)).toBe('one\ntwo\nthree\n');
    expect(newestLines('one\ntwo\nthree\n', 9)).toBe('three\n');
    expect(newestLines('ää\nöö\n', 6)).toBe('öö\n');
  });
});
