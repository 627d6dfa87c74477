import type { Socket } from 'node:net';
import { FirstBytes } from '../first-bytes.ts';
import { type HeaderBlock, HeaderBlocks } from './header-blocks.ts';
import {
  contentOf,
  decodeSettings,
  DEFAULT_WINDOW,
  encodeFrames,
  encodeSettings,
  ERROR,
  FLAG,
  FRAME,
  type Frame,
  FrameReader,
  goAway,
  Http2Error,
  MAX_FRAME_BYTES,
  MAX_WINDOW,
  PREFACE,
  readUInt32,
  resetStream,
  SETTING,
  windowUpdate,
} from './http2-frames.ts';
import { encodeHeaders, HpackError } from './hpack.ts';

/** gRPC status codes. */
export const GRPC = { resourceExhausted: 8, unimplemented: 12, internal: 13, unavailable: 14 } as const;

/** Answer to a unary call. An error is what the caller sees as a failed call. */
export type GrpcAnswer = { readonly message: Uint8Array } | { readonly error: number; readonly text: string };

/** Answers a unary call of a method, such as `/package.Service/Method`, at once. */
export type GrpcHandler = (method: string, message: Buffer) => GrpcAnswer;

const NOTHING = Buffer.alloc(0);
const MAX_STREAMS = 1000;
const MAX_MESSAGE_BYTES = 65_536;
/** Flag of compression, and length of the message. */
const PREFIX_BYTES = 5;
/** A client may send more than a whole message, so that one that is too large is told so. */
const STREAM_WINDOW = 2 * MAX_MESSAGE_BYTES;
/** Received data after which the window of the connection grows again. */
const CREDIT_BYTES = 2 ** 18;
const CONNECTION_WINDOW = 2 ** 20;
/** Of requests that have not ended, in one connection; each part of one costs so much beside its bytes. */
const MAX_HELD_BYTES = 2 * 2 ** 20;
const PART_BYTES = 256;
/** A client that reads no answers sends no more requests. */
const MAX_UNREAD_BYTES = 2 ** 20;

const BEGIN = encodeHeaders([
  [':status', '200'],
  ['content-type', 'application/grpc'],
]);
const END = encodeHeaders([['grpc-status', '0']]);

interface Call {
  readonly method: string;
  readonly parts: Buffer[];
  bytes: number;
  /** Memory that its parts take. */
  held: number;
  /** Bytes of the answer that the client accepts. */
  window: number;
  /** What is left of the answer. */
  answer?: Buffer | undefined;
  isAnswered: boolean;
  isBegun: boolean;
}

/** Serves unary calls over the connection until it ends. */
export function serveGrpc(socket: Socket, handle: GrpcHandler): GrpcConnection {
  return new GrpcConnection(socket, handle);
}

/**
 * Serves unary calls of gRPC over one connection. Far cheaper a call than the HTTP/2 of the runtime, whose streams do what no call
 * needs. A client that breaks the protocol loses the connection, and no other one.
 */
export class GrpcConnection {
  readonly #socket: Socket;
  readonly #handle: GrpcHandler;
  readonly #frames = new FrameReader();
  readonly #blocks = new HeaderBlocks();
  readonly #calls = new Map<number, Call>();
  /** Frames that go out together. */
  #out: Frame[] = [];
  readonly #preface = new FirstBytes(
    PREFACE,
    () => new Http2Error(ERROR.protocol, 'the connection does not begin as HTTP/2 does'),
  );
  #lastStream = 0;
  #answeredMs = performance.now();
  #window = DEFAULT_WINDOW;
  #streamWindow = DEFAULT_WINDOW;
  #credit = 0;
  #held = 0;
  #isBroken = false;

  constructor(socket: Socket, handle: GrpcHandler) {
    this.#socket = socket;
    this.#handle = handle;
    socket.on('data', (chunk) => this.#receive(chunk));
    socket.on('error', () => socket.destroy());
    const settings = encodeSettings([
      [SETTING.maxConcurrentStreams, MAX_STREAMS],
      [SETTING.initialWindowSize, STREAM_WINDOW],
    ]);
    this.#put({ type: FRAME.settings, flags: 0, stream: 0, payload: settings });
    this.#put(windowUpdate(CONNECTION_WINDOW - DEFAULT_WINDOW));
    this.#flush();
  }

  /** When a call was answered last, by the clock of `performance`; when it began, before that. */
  get answeredMs(): number {
    return this.#answeredMs;
  }

  #receive(chunk: Buffer): void {
    if (this.#isBroken) return;
    try {
      const bytes = this.#preface.after(chunk);
      if (bytes !== undefined) for (const frame of this.#frames.read(bytes)) this.#take(frame);
    } catch (cause) {
      // Whatever it is, other connections are served.
      this.#isBroken = true;
      this.#put(goAway(codeOf(cause), this.#lastStream));
      this.#socket.end(encodeFrames(this.#out.splice(0)));
      this.#socket.destroySoon();
      return;
    }
    this.#flush();
  }

  #take(frame: Frame): void {
    this.#blocks.check(frame);
    switch (frame.type) {
      case FRAME.data:
        return this.#onData(frame);
      case FRAME.headers:
      case FRAME.continuation:
        return this.#onBlock(this.#blocks.take(frame));
      case FRAME.resetStream:
        this.#forget(frame.stream);
        return undefined;
      case FRAME.settings:
        return this.#onSettings(frame);
      case FRAME.ping:
        if ((frame.flags & FLAG.ack) === 0) this.#put({ ...frame, flags: FLAG.ack });
        return undefined;
      case FRAME.windowUpdate:
        return this.#onWindowUpdate(frame);
      case FRAME.pushPromise:
        throw new Http2Error(ERROR.protocol, 'a client does not push');
      default:
        return undefined; // unknown types are to be ignored
    }
  }

  #onBlock(block: HeaderBlock | undefined): void {
    if (block === undefined) return;
    const { stream, endsStream, fields } = block;
    const known = this.#calls.get(stream);
    if (known === undefined && stream > this.#lastStream) return this.#begin(block);
    // Of a call that has been answered or reset.
    if (known === undefined) return;
    if (known.isAnswered || !endsStream || fields.some(([name]) => name.startsWith(':')))
      throw new Http2Error(ERROR.protocol, 'headers in the middle of a request');
    this.#serve(stream, known);
  }

  #begin({ stream, endsStream, fields }: HeaderBlock): void {
    if (stream % 2 === 0) throw new Http2Error(ERROR.protocol, 'a client opens odd streams');
    this.#lastStream = stream;
    if (this.#calls.size >= MAX_STREAMS) return this.#put(resetStream(stream, ERROR.refusedStream));
    const valueOf = (wanted: string): string => fields.find(([name]) => name === wanted)?.[1] ?? '';
    if (valueOf(':method') !== 'POST' || !valueOf('content-type').startsWith('application/grpc'))
      return this.#refuse(stream, [[':status', '415']], endsStream);
    const call = {
      method: valueOf(':path'),
      parts: [],
      bytes: 0,
      held: 0,
      window: this.#streamWindow,
      isAnswered: false,
      isBegun: false,
    };
    this.#calls.set(stream, call);
    if (endsStream) this.#serve(stream, call);
  }

  #onData(frame: Frame): void {
    this.#credit += frame.payload.length;
    if (this.#credit >= CREDIT_BYTES) {
      this.#put(windowUpdate(this.#credit));
      this.#credit = 0;
    }
    const { stream, flags } = frame;
    if (stream > this.#lastStream || stream === 0) throw new Http2Error(ERROR.protocol, 'data of no request');
    const call = this.#calls.get(stream);
    if (call === undefined || call.isAnswered) return;
    const content = contentOf(frame);
    const endsStream = (flags & FLAG.endStream) !== 0;
    call.bytes += content.length;
    const cost = content.length === 0 ? 0 : content.length + PART_BYTES;
    call.held += cost;
    this.#held += cost;
    const excess =
      call.bytes > PREFIX_BYTES + MAX_MESSAGE_BYTES
        ? `a message has at most ${String(MAX_MESSAGE_BYTES)} bytes`
        : this.#held > MAX_HELD_BYTES
          ? `requests of a connection have at most ${String(MAX_HELD_BYTES)} bytes before they end`
          : undefined;
    if (excess !== undefined) return this.#fail(stream, { error: GRPC.resourceExhausted, text: excess }, endsStream);
    // What waits for more must not keep alive all that was received with it.
    if (content.length > 0) call.parts.push(endsStream ? content : copyOf(content));
    if (endsStream) this.#serve(stream, call);
  }

  #serve(stream: number, call: Call): void {
    const [first = NOTHING, ...others] = call.parts;
    const body = others.length === 0 ? first : Buffer.concat(call.parts);
    const answer = this.#answer(call.method, body);
    this.#answeredMs = performance.now();
    if ('error' in answer) return this.#fail(stream, answer, true);
    const data = Buffer.alloc(PREFIX_BYTES + answer.message.length);
    data.writeUInt32BE(answer.message.length, 1);
    data.set(answer.message, PREFIX_BYTES);
    call.answer = data;
    call.isAnswered = true;
    this.#send(stream, call);
  }

  #answer(method: string, body: Buffer): GrpcAnswer {
    if (body.length < PREFIX_BYTES || body.readUInt32BE(1) !== body.length - PREFIX_BYTES)
      return { error: GRPC.internal, text: 'a request is one message' };
    if (body[0] !== 0) return { error: GRPC.unimplemented, text: 'compressed messages are not served' };
    return this.#handle(method, body.subarray(PREFIX_BYTES));
  }

  /** Sends as much of the answer as the windows of the client have room for. */
  #send(stream: number, call: Call): void {
    while (call.answer !== undefined) {
      const length = Math.min(call.answer.length, MAX_FRAME_BYTES, call.window, this.#window);
      if (length <= 0) return;
      if (!call.isBegun) this.#put({ type: FRAME.headers, flags: FLAG.endHeaders, stream, payload: BEGIN });
      call.isBegun = true;
      call.window -= length;
      this.#window -= length;
      this.#put({ type: FRAME.data, flags: 0, stream, payload: call.answer.subarray(0, length) });
      call.answer = length === call.answer.length ? undefined : call.answer.subarray(length);
    }
    this.#forget(stream);
    this.#put({ type: FRAME.headers, flags: FLAG.endHeaders | FLAG.endStream, stream, payload: END });
  }

  #sendAll(): void {
    for (const [stream, call] of this.#calls) if (call.isAnswered) this.#send(stream, call);
  }

  #forget(stream: number): void {
    this.#held -= this.#calls.get(stream)?.held ?? 0;
    this.#calls.delete(stream);
  }

  #fail(stream: number, { error, text }: Extract<GrpcAnswer, { error: number }>, endsStream: boolean): void {
    this.#forget(stream);
    const status = [
      ['grpc-status', String(error)],
      ['grpc-message', encodeURIComponent(text.toWellFormed())],
    ] as const;
    this.#refuse(stream, [[':status', '200'], ['content-type', 'application/grpc'], ...status], endsStream);
  }

  /** Answers with headers alone. A client that still sends is told to stop. */
  #refuse(stream: number, fields: Parameters<typeof encodeHeaders>[0], endsStream: boolean): void {
    const flags = FLAG.endHeaders | FLAG.endStream;
    this.#put({ type: FRAME.headers, flags, stream, payload: encodeHeaders(fields) });
    if (!endsStream) this.#put(resetStream(stream, ERROR.none));
  }

  #onSettings({ flags, payload }: Frame): void {
    if ((flags & FLAG.ack) !== 0) return;
    const window = decodeSettings(payload).get(SETTING.initialWindowSize) ?? this.#streamWindow;
    if (window > MAX_WINDOW) throw new Http2Error(ERROR.flowControl, 'a window is too large');
    for (const call of this.#calls.values()) call.window += window - this.#streamWindow;
    this.#streamWindow = window;
    this.#put({ type: FRAME.settings, flags: FLAG.ack, stream: 0, payload: NOTHING });
    this.#sendAll();
  }

  #onWindowUpdate(frame: Frame): void {
    const grant = readUInt32(frame) & MAX_WINDOW;
    const call = this.#calls.get(frame.stream);
    if (frame.stream === 0) this.#window += grant;
    if (call !== undefined) call.window += grant;
    if (grant === 0 || this.#window > MAX_WINDOW || (call?.window ?? 0) > MAX_WINDOW)
      throw new Http2Error(ERROR.flowControl, `a window grows by ${String(grant)} bytes`);
    if (frame.stream === 0) this.#sendAll();
    else if (call?.isAnswered === true) this.#send(frame.stream, call);
  }

  #put(frame: Frame): void {
    this.#out.push(frame);
  }

  #flush(): void {
    if (this.#out.length > 0) this.#socket.write(encodeFrames(this.#out.splice(0)));
    if (this.#socket.writableLength <= MAX_UNREAD_BYTES || this.#socket.isPaused()) return;
    this.#socket.pause();
    this.#socket.once('drain', () => this.#socket.resume());
  }
}

function codeOf(cause: unknown): number {
  if (cause instanceof Http2Error) return cause.code;
  return cause instanceof HpackError ? ERROR.compression : ERROR.internal;
}

function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  copy.set(bytes);
  return copy;
}
