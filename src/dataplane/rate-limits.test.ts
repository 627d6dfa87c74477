import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { boundsFor, isUnbounded, neededBounds, type RateLimit } from './rate-limits.ts';

/** 10 Mbit/s with the burst that a runtime passes, as the kernel keeps it. */
const OF_RUNTIME: RateLimit = {
  device: 'npl1',
  deviceIndex: 7,
  owner: { containerId: 'c0ffee', ifName: 'eth0', network: 'net' },
  direction: 'ingress',
  bytesPerSecond: 1_250_000,
  burstBytes: 193_273_526,
  queueBytes: 536_902_161,
  isBounded: false,
};

describe('the bounds of a rate limit', () => {
  it.each([
    ['a tenth of a second at 20 Mbit/s', 2_500_000, 100, 250_000],
    ['a frame of the greatest MTU at 1 Mbit/s', 125_000, 100, 66_000],
    ['what the kernel can count at 1 kbit/s', 125, 100, 33_750],
    ['as long as the setting says', 2_500_000, 1000, 2_500_000],
  ])('let pass at once %s', (_, bytesPerSecond, burstMs, burstBytes) => {
    expect(boundsFor(bytesPerSecond, burstMs)).toEqual({
      burstBytes,
      queueBytes: burstBytes + Math.floor(bytesPerSecond / 40),
    });
  });

  it('fit into the numbers of plugin and kernel at every rate of an annotation', () => {
    fc.assert(
      fc.property(fc.integer({ min: 125, max: 125e12 }), fc.integer({ min: 1, max: 1000 }), (rate, burstMs) => {
        const { burstBytes, queueBytes } = boundsFor(rate, burstMs);
        expect(burstBytes / rate / 64e-9).toBeLessThan(2 ** 32);
        expect(burstBytes).toBeLessThan(2 ** 32 - 1);
        expect(queueBytes).toBeGreaterThanOrEqual(burstBytes);
        expect(queueBytes).toBeLessThan(2 ** 32);
      }),
    );
  });

  it('are needed where more than a second of the rate passes or waits', () => {
    const bounds = boundsFor(1_250_000, 100);
    const chosen = { ...OF_RUNTIME, burstBytes: 1_250_000, queueBytes: 2_500_000 };
    expect(neededBounds(OF_RUNTIME, 100)).toEqual(bounds);
    expect(neededBounds({ ...chosen, queueBytes: 536_902_161 }, 100)).toEqual(bounds);
    expect(neededBounds(chosen, 100)).toBeUndefined();
    // As netplug itself asks the plugin for it.
    expect(isUnbounded({ ...OF_RUNTIME, ...boundsFor(1_250_000, 1000) })).toBe(false);
    expect(isUnbounded({ ...OF_RUNTIME, bytesPerSecond: 125, ...boundsFor(125, 1) })).toBe(false);
  });

  it('follow the setting, and stay as they are without a change of it', () => {
    const bounded = { ...OF_RUNTIME, ...boundsFor(1_250_000, 100), isBounded: true };
    expect(neededBounds(bounded, 100)).toBeUndefined();
    expect(neededBounds({ ...bounded, burstBytes: 124_999.96 }, 100)).toBeUndefined();
    expect(neededBounds(bounded, 50)).toEqual(boundsFor(1_250_000, 50));
    expect(neededBounds({ ...bounded, queueBytes: 536_902_161 }, 100)).toEqual(boundsFor(1_250_000, 100));
    // Another program has replaced the queue.
    expect(neededBounds({ ...bounded, queueBytes: undefined }, 100)).toBeUndefined();
  });
});
