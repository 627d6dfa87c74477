// Frames of HTTP/2 (RFC 9113, section 4).

/** What a client sends first. */
export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');

export const FRAME = {
  data: 0,
  headers: 1,
  resetStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

/** Bits that several types of frames share. `endStream` of settings and pings means an acknowledgement. */
export const FLAG = { endStream: 1, ack: 1, endHeaders: 4, padded: 8, priority: 0x20 } as const;

export const SETTING = { enablePush: 2, maxConcurrentStreams: 3, initialWindowSize: 4, maxFrameSize: 5 } as const;

export const ERROR = {
  none: 0,
  protocol: 1,
  internal: 2,
  flowControl: 3,
  frameSize: 6,
  refusedStream: 7,
  cancel: 8,
  compression: 9,
  calm: 11,
} as const;

const ERROR_NAMES = [
  'NO_ERROR',
  'PROTOCOL_ERROR',
  'INTERNAL_ERROR',
  'FLOW_CONTROL_ERROR',
  'SETTINGS_TIMEOUT',
  'STREAM_CLOSED',
  'FRAME_SIZE_ERROR',
  'REFUSED_STREAM',
  'CANCEL',
  'COMPRESSION_ERROR',
  'CONNECT_ERROR',
  'ENHANCE_YOUR_CALM',
  'INADEQUATE_SECURITY',
  'HTTP_1_1_REQUIRED',
];

/** Returns the name of an error code as RFC 9113 has it. */
export function errorName(code: number): string {
  return ERROR_NAMES[code] ?? String(code);
}

/** The peer breaks the protocol, or more of it than is accepted. Ends the connection with the code. */
export class Http2Error extends Error {
  override readonly name = 'Http2Error';
  readonly code: number;

  constructor(code: number, message: string) {
    super(`HTTP/2 ${errorName(code)}: ${message}`);
    this.code = code;
  }
}

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

const HEAD_BYTES = 9;
/** The largest payload that a peer may send, and be sent unless its settings allow more. */
export const MAX_FRAME_BYTES = 16_384;
/** Windows before any settings. */
export const DEFAULT_WINDOW = 65_535;
export const MAX_WINDOW = 2 ** 31 - 1;

export function encodeFrame(frame: Frame): Buffer {
  return encodeFrames([frame]);
}

/** Returns the bytes of frames that go out together, in a buffer of their own: none is cut out of the pool, whose slabs would outlive them. */
export function encodeFrames(frames: readonly Frame[]): Buffer {
  const bytes = Buffer.alloc(frames.reduce((sum, { payload }) => sum + HEAD_BYTES + payload.length, 0));
  let at = 0;
  for (const { type, flags, stream, payload } of frames) {
    bytes.writeUIntBE(payload.length, at, 3);
    bytes[at + 3] = type;
    bytes[at + 4] = flags;
    bytes.writeUInt32BE(stream, at + 5);
    bytes.set(payload, at + HEAD_BYTES);
    at += HEAD_BYTES + payload.length;
  }
  return bytes;
}

export function encodeSettings(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.alloc(6 * settings.length);
  for (const [index, [id, value]] of settings.entries()) {
    payload.writeUInt16BE(id, 6 * index);
    payload.writeUInt32BE(value, 6 * index + 2);
  }
  return payload;
}

/** @throws Http2Error */
export function decodeSettings(payload: Buffer): ReadonlyMap<number, number> {
  if (payload.length % 6 !== 0) throw new Http2Error(ERROR.frameSize, 'settings of a wrong length');
  const settings = new Map<number, number>();
  for (let at = 0; at < payload.length; at += 6) settings.set(payload.readUInt16BE(at), payload.readUInt32BE(at + 2));
  return settings;
}

/** @throws Http2Error */
export function readUInt32({ payload }: Frame, at = 0): number {
  if (payload.length < at + 4) throw new Http2Error(ERROR.frameSize, 'a frame is too short');
  return payload.readUInt32BE(at);
}

/** Returns the content of a frame with data or headers, without padding and priority. @throws Http2Error */
export function contentOf({ type, flags, payload }: Frame): Buffer {
  const isPadded = (flags & FLAG.padded) !== 0;
  const hasPriority = type === FRAME.headers && (flags & FLAG.priority) !== 0;
  const start = (isPadded ? 1 : 0) + (hasPriority ? 5 : 0);
  const end = payload.length - (isPadded ? (payload[0] ?? 0) : 0);
  if (end < start) throw new Http2Error(ERROR.protocol, 'more padding than payload');
  return payload.subarray(start, end);
}

/** Cuts frames out of the bytes of a connection. */
export class FrameReader {
  #chunks: Buffer[] = [];
  #length = 0;

  /** Returns the frames that the chunk completes. @throws Http2Error */
  *read(chunk: Buffer): Generator<Frame> {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    while (this.#length >= HEAD_BYTES) {
      const bytes = this.#join();
      const length = bytes.readUIntBE(0, 3);
      if (length > MAX_FRAME_BYTES) throw new Http2Error(ERROR.frameSize, `a frame of ${String(length)} bytes`);
      const end = HEAD_BYTES + length;
      if (bytes.length < end) return;
      this.#length -= end;
      // Without a rest, the next chunk is read as it is.
      this.#chunks = this.#length === 0 ? [] : [bytes.subarray(end)];
      yield {
        type: bytes.readUInt8(3),
        flags: bytes.readUInt8(4),
        // The first bit is reserved.
        stream: bytes.readUInt32BE(5) & MAX_WINDOW,
        payload: bytes.subarray(HEAD_BYTES, end),
      };
    }
  }

  #join(): Buffer {
    const [first = Buffer.alloc(0), ...more] = this.#chunks;
    if (more.length === 0) return first;
    const bytes = Buffer.concat(this.#chunks);
    this.#chunks = [bytes];
    return bytes;
  }
}

export function windowUpdate(bytes: number, stream = 0): Frame {
  return { type: FRAME.windowUpdate, flags: 0, stream, payload: uint32(bytes) };
}

export function resetStream(stream: number, code: number): Frame {
  return { type: FRAME.resetStream, flags: 0, stream, payload: uint32(code) };
}

/** `last` is the last stream of the peer that is served. */
export function goAway(code: number, last = 0): Frame {
  return { type: FRAME.goAway, flags: 0, stream: 0, payload: Buffer.concat([uint32(last), uint32(code)]) };
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
