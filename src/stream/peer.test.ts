import { Duplex } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { PATIENCE_MS } from '../../test/support/until.ts';
import { systemClock } from '../base/clock.ts';
import { peerOver, type StreamPeer } from './peer.ts';

const PIECE_BYTES = 1000;

/** The end of a connection that keeps what it is given at once, and is done with it at each `finish`. */
class Sink extends Duplex {
  constructor() {
    super({ highWaterMark: PIECE_BYTES });
  }

  readonly given: Buffer[] = [];
  #done: (() => void) | undefined;

  override _read(): void {
    // Says nothing.
  }

  override _writev(chunks: { chunk: Buffer }[], done: () => void): void {
    this.given.push(Buffer.concat(chunks.map(({ chunk }) => chunk)));
    this.#done = done;
  }

  async finish(): Promise<void> {
    this.#done?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function open(): { sink: Sink; peer: StreamPeer; drains: () => number } {
  const sink = new Sink();
  let drains = 0;
  const peer = peerOver(sink, {
    limitBytes: 100,
    clock: systemClock,
    listener: { onFrame: () => undefined, onDrain: () => (drains += 1), onEnd: () => undefined },
  });
  return { sink, peer, drains: () => drains };
}

const large = Buffer.from(Array.from({ length: 5 * PIECE_BYTES + 9 }, (_, index) => index % 251));
const small = Buffer.from('small');

describe('a peer', () => {
  it('is given what was sent together at once, and a large frame in pieces', async () => {
    const { sink, peer, drains } = open();
    peer.together(() => {
      peer.send(small);
      peer.send(small);
    });
    expect(sink.given).toEqual([Buffer.concat([small, small])]);
    expect(peer.isFull).toBe(false);
    peer.send(large);
    peer.send(small);
    expect(peer.isFull).toBe(true);
    await expect
      .poll(
        async () => {
          await sink.finish();
          return Buffer.concat(sink.given).equals(Buffer.concat([small, small, large, small]));
        },
        { timeout: PATIENCE_MS, interval: 1 },
      )
      .toBe(true);
    expect(Math.max(...sink.given.map(({ length }) => length))).toBe(PIECE_BYTES);
    expect(sink.given).toHaveLength(7);
    expect(peer.isFull).toBe(false);
    expect(drains()).toBe(1);
  });

  it('is sent all that waits before a last frame', async () => {
    const { sink, peer } = open();
    peer.send(large);
    peer.end(small);
    await expect
      .poll(
        async () => {
          await sink.finish();
          return sink.destroyed;
        },
        { timeout: PATIENCE_MS, interval: 1 },
      )
      .toBe(true);
    expect(Buffer.concat(sink.given).equals(Buffer.concat([large, small]))).toBe(true);
  });
});
