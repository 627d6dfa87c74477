import { NetplugError } from '../base/errors.ts';

/** A frame is the length of the payload in four bytes, its type in one, and the payload. */
export interface StreamFrame {
  readonly type: number;
  readonly payload: Buffer;
}

const HEAD_BYTES = 5;
const NOTHING: Buffer = Buffer.alloc(0);
/** Each piece takes memory beside its bytes: a frame that comes byte by byte would take a hundred times its length. */
const MOST_PIECES = 64;

/** Returns the frame as it is sent. */
export function streamFrame(type: number, payload: Buffer | string): Buffer {
  const bytes = typeof payload === 'string' ? Buffer.from(payload, 'utf8') : payload;
  const frame = Buffer.allocUnsafe(HEAD_BYTES + bytes.length);
  frame.writeUInt32BE(bytes.length, 0);
  frame[4] = type;
  frame.set(bytes, HEAD_BYTES);
  return frame;
}

/** Returns a frame whose payload is the value as JSON. */
export function jsonFrame(type: number, value: unknown): Buffer {
  return streamFrame(type, JSON.stringify(value));
}

/** Returns the JSON value of a payload. @throws stream/protocol for other bytes */
export function payloadJson({ type, payload }: StreamFrame): unknown {
  try {
    return JSON.parse(payload.toString('utf8'));
  } catch (cause) {
    throw protocolError(`a frame of type ${String(type)} is no JSON`, cause);
  }
}

export function protocolError(why: string, cause?: unknown): NetplugError {
  return new NetplugError('stream/protocol', `Cannot go on with the connection: ${why}`, {
    hint: 'Compare the releases of both programs, and what else uses the port',
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Divides received bytes into frames. Holds no more than one frame that is within the limit. */
export class StreamFrameReader {
  #limit: number;
  #pieces: Buffer[] = [];
  #held = 0;
  /** Length of the frame that is received; undefined while its head is. */
  #needed: number | undefined;

  constructor(limitBytes: number) {
    this.#limit = limitBytes;
  }

  /** Sets the longest payload that is accepted from now on. */
  set limit(bytes: number) {
    this.#limit = bytes;
  }

  /** Yields the frames that are complete. @throws stream/protocol for a frame over the limit */
  *push(bytes: Buffer): Generator<StreamFrame, void> {
    if (bytes.length > 0) this.#pieces.push(bytes);
    this.#held += bytes.length;
    if (this.#pieces.length > MOST_PIECES) this.#joined();
    for (;;) {
      if (this.#needed === undefined) {
        if (this.#held < HEAD_BYTES) return;
        const length = this.#joined().readUInt32BE(0);
        if (length > this.#limit)
          throw protocolError(`a frame has ${String(length)} bytes, allowed are ${String(this.#limit)}`);
        this.#needed = HEAD_BYTES + length;
      }
      if (this.#held < this.#needed) return;
      const all = this.#joined();
      const frame = { type: all.readUInt8(4), payload: all.subarray(HEAD_BYTES, this.#needed) };
      this.#pieces = this.#held > this.#needed ? [all.subarray(this.#needed)] : [];
      this.#held -= this.#needed;
      this.#needed = undefined;
      yield frame;
    }
  }

  #joined(): Buffer {
    const [first = NOTHING, ...more] = this.#pieces;
    if (more.length === 0) return first;
    const all = Buffer.concat([first, ...more]);
    this.#pieces = [all];
    return all;
  }
}
