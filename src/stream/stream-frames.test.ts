import { queryObjects } from 'node:v8';
import { expect, it } from 'vitest';
import { StreamFrameReader, streamFrame } from './stream-frames.ts';

it('refuses a frame over the limit by its head, before its payload has come', () => {
  const reader = new StreamFrameReader(16);
  expect([...reader.push(streamFrame(1, 'x'.repeat(16)))]).toHaveLength(1);
  expect(() => [...reader.push(streamFrame(1, 'x'.repeat(17)).subarray(0, 5))]).toThrow(
    expect.objectContaining({ code: 'stream/protocol' }),
  );
});

it('accepts longer frames once its limit is raised, also of bytes that have come together', () => {
  const reader = new StreamFrameReader(4);
  const lengths: number[] = [];
  for (const { payload } of reader.push(Buffer.concat([streamFrame(1, 'abcd'), streamFrame(2, 'x'.repeat(100))]))) {
    lengths.push(payload.length);
    reader.limit = 100;
  }
  expect(lengths).toEqual([4, 100]);
});

it('gives frames back that come byte by byte', () => {
  const reader = new StreamFrameReader(1000);
  const bytes = Buffer.concat([streamFrame(1, 'one'), streamFrame(2, ''), streamFrame(3, 'three')]);
  const frames = [...bytes].flatMap((byte) => [...reader.push(Buffer.of(byte))]);
  expect(frames.map(({ type, payload }) => [type, payload.toString()])).toEqual([
    [1, 'one'],
    [2, ''],
    [3, 'three'],
  ]);
});

it('holds few buffers for a frame that comes byte by byte', () => {
  const live = (): number => queryObjects(ArrayBuffer, { format: 'count' });
  const reader = new StreamFrameReader(16_384);
  const before = live();
  for (const byte of streamFrame(1, 'x'.repeat(16_384)).subarray(0, -1))
    expect([...reader.push(Buffer.from(new Uint8Array([byte]).buffer))]).toEqual([]);
  expect(live() - before).toBeLessThan(200);
  expect([...reader.push(Buffer.of(120))]).toHaveLength(1);
});
