import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type FlowCounts, flowLines, largestArriving, readFlowLine } from './judge-flow.ts';

const URL = 'udp://[fd00::7]:8080';
const OUTAGE = { lost: 3, at: '2026-12-01T00:00:00.000Z', seconds: 2 };
const SOUND = { sent: 900, hasAnswered: true };
const FULL = { sent: 45, hasAnswered: true, neverArrives: false, bytes: 1500 };

const verdicts = (counts: Omit<FlowCounts, 'url'>) => {
  const lines = flowLines({ url: URL, ...counts });
  return {
    said: lines.map((line) => line.slice(URL.length + 2)),
    kinds: lines.map((line) => readFlowLine(line)?.kind),
  };
};

describe('the verdict on the datagrams to a target', () => {
  it('has a line for each size when nothing is lost', () => {
    expect(verdicts({ small: SOUND, fullSize: FULL })).toEqual({
      said: ['900 datagrams sent, none lost', '45 full-size packets of 1500 bytes sent, none lost'],
      kinds: [undefined, undefined],
    });
  });

  it('says nothing of a size that is not sent, or when nothing was answered', () => {
    expect(verdicts({ small: SOUND }).said).toHaveLength(1);
    const small = { sent: 400, hasAnswered: false };
    expect(verdicts({ small, fullSize: { ...FULL, hasAnswered: false } }).said).toEqual([
      'none of 400 datagrams was answered',
    ]);
  });

  it.each([
    [{ interfaceMtu: 1500, arriving: 1450 }, 'packets of at most 1450 bytes arrive'],
    [{ interfaceMtu: 1400, arriving: 1400 }, "that of the pod's interface was lowered from 1500 to 1400 bytes"],
    [{ interfaceMtu: 1500, arriving: 1500 }, 'packets of 1500 bytes arrive again'],
  ])('blames the size when small ones arrive: %j', (now, mtu) => {
    expect(verdicts({ small: SOUND, fullSize: { ...FULL, outage: OUTAGE, now } })).toEqual({
      said: [
        '900 datagrams sent, none lost',
        `full-size packets of 1500 bytes are lost while small ones arrive: 3 of 45 within 2.0 s from ${OUTAGE.at}; MTU: ${mtu}`,
      ],
      kinds: [undefined, 'full-size'],
    });
  });

  it('does not blame the size when small ones are lost as well', () => {
    expect(verdicts({ small: { ...SOUND, outage: OUTAGE }, fullSize: { ...FULL, outage: OUTAGE } })).toEqual({
      said: [
        `3 of 900 datagrams lost within 2.0 s from ${OUTAGE.at}`,
        '3 of 45 full-size packets of 1500 bytes lost as well',
      ],
      kinds: ['small', undefined],
    });
  });

  it('tells packets that never arrived from those of which that is not known yet', () => {
    const early = { ...FULL, hasAnswered: false };
    const now = { interfaceMtu: 1500, arriving: 1400 };
    expect(verdicts({ small: SOUND, fullSize: { ...early, neverArrives: true, now } })).toMatchObject({
      said: [
        expect.anything(),
        'full-size packets of 1500 bytes do not arrive since the watch began, while small ones do; MTU: packets of at most 1400 bytes arrive',
      ],
      kinds: [undefined, 'full-size-from-start'],
    });
    expect(verdicts({ small: SOUND, fullSize: early })).toMatchObject({
      said: [expect.anything(), 'none of 45 full-size packets of 1500 bytes was answered so far'],
      kinds: [undefined, undefined],
    });
  });

  it('reads the address of a line, and nothing in other output', () => {
    const line = `udp://10.1.0.7:8080: 3 of 900 datagrams lost within 2.0 s from ${OUTAGE.at}`;
    expect(readFlowLine(line)).toEqual({ kind: 'small', address: '10.1.0.7' });
    expect(readFlowLine('error: 3 of 900 datagrams lost within a second')).toBeUndefined();
  });
});

it('finds the largest size that arrives, in four rounds at most', async () => {
  const path = fc
    .integer({ min: 28, max: 9000 })
    .chain((fits) =>
      fc
        .integer({ min: fits, max: 9000 })
        .chain((most) => fc.tuple(fc.constant({ fits, most }), fc.integer({ min: fits, max: most }))),
    );
  await fc.assert(
    fc.asyncProperty(path, async ([bounds, limit]) => {
      const tried: number[] = [];
      const found = await largestArriving(bounds, async (bytes) => {
        tried.push(bytes);
        return Promise.resolve(bytes <= limit);
      });
      expect(found).toBe(limit);
      expect(tried.length).toBeLessThanOrEqual(4 * 16);
      for (const bytes of tried) expect(bytes > bounds.fits && bytes <= bounds.most).toBe(true);
    }),
  );
});
