import { connect, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { EndedAfterHandshake } from './ended-after-handshake.ts';
import {
  contentOf,
  decodeSettings,
  DEFAULT_WINDOW,
  encodeFrame,
  encodeSettings,
  ERROR,
  errorName,
  FLAG,
  FRAME,
  type Frame,
  FrameReader,
  Http2Error,
  MAX_FRAME_BYTES,
  MAX_WINDOW,
  readUInt32,
  SETTING,
} from './http2-frames.ts';
import { encodeHeaders, HeaderDecoder, HpackError } from './hpack.ts';
import type { EtcdTls } from './tls-files.ts';
import type { UnaryRequest, UnaryResponse } from './unary-connection.ts';

const NOTHING = Buffer.alloc(0);
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
/** Header blocks that are longer end the connection, so that frames without end cannot fill the memory. */
const MAX_HEADER_BYTES = 65_536;
/** Least size that a frame of a header block counts, also when it is empty. */
const FRAME_BYTES = 32;
/** A server that demands more of them than it reads would fill the memory. */
const MAX_UNSENT_ACKS = 1000;
/** Received data after which the window of the connection grows again. */
const CREDIT_BYTES = 2 ** 20;

interface Stream {
  readonly resolve: (response: UnaryResponse) => void;
  readonly reject: (error: Error) => void;
  headers: ReadonlyMap<string, string> | undefined;
  readonly chunks: Buffer[];
  /** Whether the server has ended it. */
  isEnded: boolean;
  /** Bytes that the windows do not allow yet. */
  unsent: Buffer;
  window: number;
}

/** A header block whose last frame is still to come. */
interface OpenBlock {
  readonly stream: number;
  readonly endsStream: boolean;
  readonly parts: Buffer[];
  bytes: number;
}

/**
 * One HTTP/2 connection for requests with one message each. Spares a program that serves one CNI call the time to load the
 * HTTP/2 client of its runtime.
 */
export class MinimalHttp2Session {
  readonly #socket: Socket;
  readonly #url: URL;
  readonly #onData: () => void;
  readonly #frames = new FrameReader();
  readonly #decoder = new HeaderDecoder();
  readonly #streams = new Map<number, Stream>();
  readonly #pings: (() => void)[] = [];
  readonly #waiting: (() => void)[] = [];
  #onSettings: (() => void) | undefined;
  /** Requests and pings under way, which keep the process running. */
  #awaited = 0;
  #nextStream = 1;
  #block: OpenBlock | undefined;
  #window = DEFAULT_WINDOW;
  #streamWindow = DEFAULT_WINDOW;
  #maxFrameBytes = MAX_FRAME_BYTES;
  #maxStreams = Number.POSITIVE_INFINITY;
  #credit = 0;
  #isLeaving = false;
  #unsentAcks = 0;
  /** Whether a TLS handshake is over and the server has sent nothing since. */
  #isUnanswered = false;
  #error: Error | undefined;

  /** Connects. `onData` is called whenever something arrives. */
  constructor(origin: string, { tls, onData }: { readonly tls: EtcdTls; readonly onData: () => void }) {
    this.#url = new URL(origin);
    this.#onData = onData;
    this.#socket = socketTo(this.#url, tls);
    this.#socket.once('secureConnect', () => (this.#isUnanswered = true));
    this.#socket.on('data', (chunk) => this.#receive(chunk));
    this.#socket.on('error', (error) => this.#onEnd(error));
    this.#socket.on('close', () => this.#onEnd(closed()));
    const settings = encodeSettings([
      [SETTING.enablePush, 0],
      [SETTING.initialWindowSize, MAX_WINDOW],
    ]);
    this.#socket.write(
      Buffer.concat([
        PREFACE,
        encodeFrame({ type: FRAME.settings, flags: 0, stream: 0, payload: settings }),
        windowUpdate(MAX_WINDOW - DEFAULT_WINDOW),
      ]),
    );
  }

  /** Whether new requests may be sent. */
  get isOpen(): boolean {
    return this.#error === undefined && !this.#isLeaving;
  }

  /** Resolves with the first settings of the server, its first frame on every connection. */
  async introduced(): Promise<void> {
    return this.#unlessDestroyed((resolve) => (this.#onSettings = resolve));
  }

  /** Resolves when the server answers a ping. */
  async ping(): Promise<void> {
    return this.#unlessDestroyed((resolve) => {
      this.#pings.push(resolve);
      this.#write({ type: FRAME.ping, flags: 0, stream: 0, payload: Buffer.alloc(8) });
    });
  }

  /** Sends a POST request. Rejects with the reason of the signal when it aborts, and cancels the request. */
  async post(path: string, { headers, body, signal }: UnaryRequest): Promise<UnaryResponse> {
    while (this.isOpen && this.#streams.size >= this.#maxStreams)
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    signal.throwIfAborted();
    if (!this.isOpen) throw this.#error ?? closed();
    const id = this.#nextStream;
    this.#nextStream += 2;
    const payload = encodeHeaders([
      [':method', 'POST'],
      [':scheme', this.#url.protocol.slice(0, -1)],
      [':path', path],
      [':authority', this.#url.host],
      ...Object.entries(headers),
    ]);
    let abort = (): void => undefined;
    try {
      return await this.#awaiting(
        new Promise<UnaryResponse>((resolve, reject) => {
          abort = (): void => reject(signal.reason instanceof Error ? signal.reason : new Error(String(signal.reason)));
          signal.addEventListener('abort', abort, { once: true });
          const stream: Stream = {
            resolve,
            reject,
            headers: undefined,
            chunks: [],
            isEnded: false,
            unsent: body,
            window: this.#streamWindow,
          };
          this.#streams.set(id, stream);
          this.#socket.cork();
          this.#write({ type: FRAME.headers, flags: FLAG.endHeaders, stream: id, payload });
          this.#send(id, stream);
          this.#socket.uncork();
        }),
      );
    } finally {
      signal.removeEventListener('abort', abort);
      const stream = this.#streams.get(id);
      this.#streams.delete(id);
      if (stream?.isEnded === false || stream?.unsent.length !== 0) this.#write(resetStream(id, ERROR.cancel));
      this.#waiting.shift()?.();
      if (this.#isLeaving && this.#streams.size === 0) this.destroy();
    }
  }

  /** Ends the connection. Requests under way fail with the error. */
  destroy(error: Error = closed()): void {
    if (this.#error !== undefined) return;
    this.#error = error;
    this.#socket.destroy();
    for (const { reject } of this.#streams.values()) reject(error);
    for (const resume of [...this.#waiting, ...this.#pings]) resume();
    this.#onSettings?.();
  }

  /** Keeps the process running until that is settled. */
  async #awaiting<T>(work: Promise<T>): Promise<T> {
    this.#awaited += 1;
    this.#socket.ref();
    try {
      return await work;
    } finally {
      this.#awaited -= 1;
      if (this.#awaited === 0) this.#socket.unref();
    }
  }

  /** Waits until `begin` calls back. Rejects when the connection ends. */
  async #unlessDestroyed(begin: (resolve: () => void) => void): Promise<void> {
    if (this.#error === undefined) await this.#awaiting(new Promise<void>(begin));
    if (this.#error !== undefined) throw this.#error;
  }

  #onEnd(error: Error): void {
    this.destroy(this.#isUnanswered ? new EndedAfterHandshake(error) : error);
  }

  #receive(chunk: Buffer): void {
    this.#isUnanswered = false;
    this.#onData();
    try {
      for (const frame of this.#frames.read(chunk)) {
        if (this.#error === undefined) this.#handle(frame);
      }
    } catch (cause) {
      const error = cause instanceof HpackError ? new Http2Error(ERROR.compression, cause.message) : cause;
      if (error instanceof Http2Error) this.#write(goAway(error.code));
      this.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #handle(frame: Frame): void {
    if (this.#block !== undefined && (frame.type !== FRAME.continuation || frame.stream !== this.#block.stream))
      throw new Http2Error(ERROR.protocol, 'a header block is interrupted');
    switch (frame.type) {
      case FRAME.data:
        return this.#onDataFrame(frame);
      case FRAME.headers:
        this.#block = { stream: frame.stream, endsStream: (frame.flags & FLAG.endStream) !== 0, parts: [], bytes: 0 };
        return this.#onBlock(contentOf(frame), frame);
      case FRAME.continuation:
        return this.#onBlock(frame.payload, frame);
      case FRAME.resetStream:
        return this.#onReset(frame);
      case FRAME.settings:
        return this.#onSettingsFrame(frame);
      case FRAME.ping:
        if ((frame.flags & FLAG.ack) !== 0) this.#pings.shift()?.();
        else this.#acknowledge({ ...frame, flags: FLAG.ack });
        return undefined;
      case FRAME.goAway:
        return this.#onGoAway(readUInt32(frame));
      case FRAME.windowUpdate:
        return this.#onWindowUpdate(frame);
      case FRAME.pushPromise:
        throw new Http2Error(ERROR.protocol, 'a push that was not allowed');
      default:
        return undefined; // unknown types are to be ignored
    }
  }

  #onDataFrame(frame: Frame): void {
    this.#credit += frame.payload.length;
    if (this.#credit >= CREDIT_BYTES) {
      this.#socket.write(windowUpdate(this.#credit));
      this.#credit = 0;
    }
    const stream = this.#streams.get(frame.stream);
    if (stream === undefined) return; // a cancelled request
    stream.chunks.push(contentOf(frame));
    if ((frame.flags & FLAG.endStream) !== 0) finish(stream, new Map());
  }

  #onBlock(part: Buffer, { flags }: Frame): void {
    const block = this.#block;
    if (block === undefined) throw new Http2Error(ERROR.protocol, 'a continuation of no header block');
    block.parts.push(part);
    block.bytes += part.length + FRAME_BYTES;
    if (block.bytes > MAX_HEADER_BYTES) throw new Http2Error(ERROR.calm, 'a header block is too long');
    if ((flags & FLAG.endHeaders) === 0) return;
    this.#block = undefined;
    // Also for a cancelled request: blocks change the table of the decoder.
    const fields = new Map(this.#decoder.decode(Buffer.concat(block.parts)));
    const stream = this.#streams.get(block.stream);
    if (stream === undefined || /^1\d\d$/.test(fields.get(':status') ?? '')) return;
    if (block.endsStream) finish(stream, fields);
    else if (stream.headers === undefined) stream.headers = fields;
    else throw new Http2Error(ERROR.protocol, 'trailers that do not end their stream');
  }

  #onSettingsFrame({ flags, payload }: Frame): void {
    if ((flags & FLAG.ack) !== 0) return;
    const settings = decodeSettings(payload);
    const window = settings.get(SETTING.initialWindowSize) ?? this.#streamWindow;
    if (window > MAX_WINDOW) throw new Http2Error(ERROR.flowControl, 'a window is too large');
    for (const stream of this.#streams.values()) stream.window += window - this.#streamWindow;
    this.#streamWindow = window;
    this.#maxFrameBytes = settings.get(SETTING.maxFrameSize) ?? this.#maxFrameBytes;
    this.#maxStreams = settings.get(SETTING.maxConcurrentStreams) ?? this.#maxStreams;
    this.#acknowledge({ type: FRAME.settings, flags: FLAG.ack, stream: 0, payload: NOTHING });
    for (const resume of this.#waiting.splice(0)) resume();
    this.#sendAll();
    this.#onSettings?.();
    this.#onSettings = undefined;
  }

  #onGoAway(last: number): void {
    this.#isLeaving = true;
    for (const [id, { reject }] of this.#streams) if (id > last) reject(closed());
    for (const resume of this.#waiting.splice(0)) resume();
    if (this.#streams.size === 0) this.destroy();
  }

  #onWindowUpdate(frame: Frame): void {
    const grant = readUInt32(frame) & MAX_WINDOW;
    if (frame.stream === 0) this.#window += grant;
    const stream = this.#streams.get(frame.stream);
    if (stream !== undefined) stream.window += grant;
    if (grant === 0 || this.#window > MAX_WINDOW || (stream?.window ?? 0) > MAX_WINDOW)
      throw new Http2Error(ERROR.flowControl, `a window grows by ${String(grant)} bytes`);
    this.#sendAll();
  }

  #onReset(frame: Frame): void {
    const stream = this.#streams.get(frame.stream);
    if (stream === undefined) return;
    stream.isEnded = true;
    stream.unsent = NOTHING;
    stream.reject(new Error(`the server reset the stream with ${errorName(readUInt32(frame))}`));
  }

  #sendAll(): void {
    for (const [id, stream] of this.#streams) if (stream.unsent.length > 0) this.#send(id, stream);
  }

  /** Sends as much of the request as the windows allow. */
  #send(id: number, stream: Stream): void {
    while (stream.unsent.length > 0) {
      const length = Math.min(stream.unsent.length, this.#maxFrameBytes, this.#window, stream.window);
      if (length <= 0) return;
      const isLast = length === stream.unsent.length;
      const payload = stream.unsent.subarray(0, length);
      stream.unsent = stream.unsent.subarray(length);
      stream.window -= length;
      this.#window -= length;
      this.#write({ type: FRAME.data, flags: isLast ? FLAG.endStream : 0, stream: id, payload });
    }
  }

  #acknowledge(frame: Frame): void {
    this.#unsentAcks += 1;
    if (this.#unsentAcks > MAX_UNSENT_ACKS)
      throw new Http2Error(ERROR.calm, 'acknowledgements are requested, and not read');
    this.#socket.write(encodeFrame(frame), () => (this.#unsentAcks -= 1));
  }

  #write(frame: Frame): void {
    if (this.#error === undefined) this.#socket.write(encodeFrame(frame));
  }
}

function socketTo({ protocol, hostname, port }: URL, tls: EtcdTls): Socket {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  if (protocol === 'http:') return connect({ host, port: port === '' ? 80 : Number(port), noDelay: true });
  const name = isIP(host) === 0 ? { servername: host } : {};
  return connectTls({
    ...tls,
    ...name,
    host,
    port: port === '' ? 443 : Number(port),
    ALPNProtocols: ['h2'],
  }).setNoDelay();
}

function finish(stream: Stream, last: ReadonlyMap<string, string>): void {
  const { resolve, reject, headers, chunks } = stream;
  stream.isEnded = true;
  if (headers !== undefined) resolve({ headers, body: Buffer.concat(chunks), trailers: last });
  else if (last.size > 0 && chunks.length === 0) resolve({ headers: last, body: NOTHING, trailers: new Map() });
  else reject(new Http2Error(ERROR.protocol, 'data before headers'));
}

function windowUpdate(bytes: number): Buffer {
  return encodeFrame({ type: FRAME.windowUpdate, flags: 0, stream: 0, payload: uint32(bytes) });
}

function resetStream(stream: number, code: number): Frame {
  return { type: FRAME.resetStream, flags: 0, stream, payload: uint32(code) };
}

function goAway(code: number): Frame {
  return { type: FRAME.goAway, flags: 0, stream: 0, payload: Buffer.concat([uint32(0), uint32(code)]) };
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function closed(): Error {
  return new Error('the server closed the connection');
}
