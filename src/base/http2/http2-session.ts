import type { Socket } from 'node:net';
import { errnoOf } from '../errors.ts';
import { untilAborted } from '../until-aborted.ts';
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
import { type HeaderBlock, HeaderBlocks } from './header-blocks.ts';
import { encodeHeaders, HpackError } from './hpack.ts';
import { Http2Stream } from './http2-stream.ts';

const NOTHING = Buffer.alloc(0);
/** A server that demands more of them than it reads would fill the memory. */
const MAX_UNSENT_ACKS = 1000;
/** Requests at a time that a server is taken to allow until it says. */
const ASSUMED_STREAMS = 100;
/** Received data after which the window of the connection grows again. */
const CREDIT_BYTES = 2 ** 20;
/** Data of one response that the server may send ahead of its reader. */
const AHEAD_BYTES = 4 * CREDIT_BYTES;

export interface Http2Request {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  /** Names are in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** `follows` when the caller writes it; undefined for none. */
  readonly body: Buffer | 'follows' | undefined;
  readonly signal: AbortSignal;
}

interface SessionEvents {
  /** Called whenever something arrives. */
  readonly onData?: () => void;
  /** Called when the connection has ended. */
  readonly onEnd?: () => void;
}

/**
 * One HTTP/2 connection of a client. Spares a program that serves one CNI call the time to load the HTTP/2 client of its
 * runtime. Does not keep the process running, except for what is held.
 */
export class Http2Session {
  readonly #socket: Socket;
  readonly #url: URL;
  readonly #events: SessionEvents;
  readonly #frames = new FrameReader();
  readonly #blocks = new HeaderBlocks();
  readonly #streams = new Map<number, Http2Stream>();
  readonly #pings: (() => void)[] = [];
  readonly #waiting: (() => void)[] = [];
  #onSettings: (() => void) | undefined;
  /** Requests and pings under way, which keep the process running. */
  #awaited = 0;
  #nextStream = 1;
  #window = DEFAULT_WINDOW;
  #streamWindow = DEFAULT_WINDOW;
  #maxFrameBytes = MAX_FRAME_BYTES;
  #maxStreams = ASSUMED_STREAMS;
  #hasSettings = false;
  #credit = 0;
  #isLeaving = false;
  #unsentAcks = 0;
  /** Whether a TLS handshake is over and the server has sent nothing since. */
  #isUnanswered = false;
  #error: Error | undefined;

  /** `url` is that of the server to which the socket leads, or is being connected. */
  constructor(socket: Socket, url: URL, events: SessionEvents = {}) {
    this.#socket = socket;
    this.#url = url;
    this.#events = events;
    this.#socket.once('secureConnect', () => (this.#isUnanswered = true));
    this.#socket.on('data', (chunk) => this.#receive(chunk));
    this.#socket.on('error', (error) => this.#onEnd(isClosed(error) ? closed(error) : error));
    this.#socket.on('close', () => this.#onEnd(closed()));
    const settings = encodeSettings([
      [SETTING.enablePush, 0],
      [SETTING.initialWindowSize, AHEAD_BYTES],
    ]);
    this.#socket.write(
      Buffer.concat([
        PREFACE,
        encodeFrame({ type: FRAME.settings, flags: 0, stream: 0, payload: settings }),
        encodeFrame(windowUpdate(MAX_WINDOW - DEFAULT_WINDOW)),
      ]),
    );
    this.#socket.unref();
  }

  /** Number of requests whose response has not ended. */
  get requests(): number {
    return this.#streams.size;
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

  /** Sends a request, when the server allows one more. The response throws the reason of the signal when it aborts. */
  async request({ method, path, headers, body, signal }: Http2Request): Promise<Http2Stream> {
    while (this.isOpen && this.#streams.size >= this.#maxStreams) await this.#turn(signal);
    signal.throwIfAborted();
    if (!this.isOpen) throw this.#error ?? closed();
    const id = this.#nextStream;
    this.#nextStream += 2;
    const stream: Http2Stream = new Http2Stream(
      {
        send: () => this.#send(id, stream),
        grant: (bytes) => this.#write(windowUpdate(bytes, id)),
        release: () => {
          if (this.#remove(id)) this.#write(resetStream(id, ERROR.cancel));
        },
      },
      { window: this.#streamWindow, signal },
    );
    this.#streams.set(id, stream);
    const payload = encodeHeaders([
      [':method', method],
      [':scheme', this.#url.protocol.slice(0, -1)],
      [':path', path],
      [':authority', this.#url.host],
      ...Object.entries(headers),
    ]);
    this.#socket.cork();
    this.#write({ type: FRAME.headers, flags: FLAG.endHeaders, stream: id, payload });
    if (body !== 'follows') stream.end(body);
    this.#socket.uncork();
    return stream;
  }

  /** Waits until another request has ended. */
  async #turn(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    try {
      await untilAborted(promise, signal);
    } catch (cause) {
      const place = this.#waiting.indexOf(resolve);
      if (place === -1) this.#waiting.shift()?.();
      else this.#waiting.splice(place, 1);
      throw cause;
    }
  }

  /** Reports whether the stream was still there. */
  #remove(id: number): boolean {
    if (!this.#streams.delete(id)) return false;
    this.#waiting.shift()?.();
    if (this.#isLeaving && this.#streams.size === 0) this.destroy();
    return true;
  }

  /** Ends the connection. Requests under way fail with the error. */
  destroy(error: Error = closed()): void {
    if (this.#error !== undefined) return;
    this.#error = error;
    this.#socket.destroy();
    for (const stream of this.#streams.values()) stream.finish(error);
    for (const resume of [...this.#waiting, ...this.#pings]) resume();
    this.#onSettings?.();
    this.#events.onEnd?.();
  }

  /** Keeps the process running until that is settled. */
  async hold<T>(work: Promise<T>): Promise<T> {
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
    if (this.#error === undefined) await new Promise<void>(begin);
    if (this.#error !== undefined) throw this.#error;
  }

  #onEnd(error: Error): void {
    this.destroy(this.#isUnanswered ? new EndedAfterHandshake(error) : error);
  }

  #receive(chunk: Buffer): void {
    this.#isUnanswered = false;
    this.#events.onData?.();
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
    this.#blocks.check(frame);
    switch (frame.type) {
      case FRAME.data:
        return this.#onDataFrame(frame);
      case FRAME.headers:
      case FRAME.continuation:
        return this.#onBlock(this.#blocks.take(frame));
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
      this.#write(windowUpdate(this.#credit));
      this.#credit = 0;
    }
    const stream = this.#streams.get(frame.stream);
    if (stream === undefined) return; // a cancelled request
    if (!stream.hasHeaders) throw new Http2Error(ERROR.protocol, 'data before headers');
    const content = contentOf(frame);
    stream.receive(content, frame.payload.length - content.length);
    if ((frame.flags & FLAG.endStream) !== 0) this.#complete(frame.stream, stream);
  }

  /** The response is complete. A request that is not is cancelled when the response has been read. */
  #complete(id: number, stream: Http2Stream): void {
    stream.finish();
    if (stream.isWhole) this.#remove(id);
  }

  #onBlock(block: HeaderBlock | undefined): void {
    if (block === undefined) return;
    const fields = new Map<string, string>();
    for (const [name, value] of block.fields) {
      const before = fields.get(name);
      fields.set(name, before === undefined ? value : `${before}, ${value}`);
    }
    const stream = this.#streams.get(block.stream);
    if (stream === undefined || /^1\d\d$/.test(fields.get(':status') ?? '')) return;
    if (stream.hasHeaders && !block.endsStream)
      throw new Http2Error(ERROR.protocol, 'trailers that do not end their stream');
    stream.receiveFields(fields);
    if (block.endsStream) this.#complete(block.stream, stream);
  }

  #onSettingsFrame({ flags, payload }: Frame): void {
    if ((flags & FLAG.ack) !== 0) return;
    const settings = decodeSettings(payload);
    const window = settings.get(SETTING.initialWindowSize) ?? this.#streamWindow;
    if (window > MAX_WINDOW) throw new Http2Error(ERROR.flowControl, 'a window is too large');
    for (const stream of this.#streams.values()) stream.window += window - this.#streamWindow;
    this.#streamWindow = window;
    this.#maxFrameBytes = settings.get(SETTING.maxFrameSize) ?? this.#maxFrameBytes;
    this.#maxStreams =
      settings.get(SETTING.maxConcurrentStreams) ?? (this.#hasSettings ? this.#maxStreams : Number.POSITIVE_INFINITY);
    this.#hasSettings = true;
    this.#acknowledge({ type: FRAME.settings, flags: FLAG.ack, stream: 0, payload: NOTHING });
    for (const resume of this.#waiting.splice(0)) resume();
    this.#sendAll();
    this.#onSettings?.();
    this.#onSettings = undefined;
  }

  #onGoAway(last: number): void {
    this.#isLeaving = true;
    for (const [id, stream] of this.#streams) if (id > last) stream.finish(reset('REFUSED_STREAM'));
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
    this.#remove(frame.stream);
    stream.finish(reset(errorName(readUInt32(frame))));
  }

  #sendAll(): void {
    for (const [id, stream] of this.#streams) this.#send(id, stream);
  }

  /** Sends as much of the request as the windows allow. */
  #send(id: number, stream: Http2Stream): void {
    for (;;) {
      const next = stream.take(Math.min(this.#maxFrameBytes, this.#window));
      if (next === undefined) return;
      this.#window -= next.payload.length;
      this.#write({ type: FRAME.data, flags: next.isLast ? FLAG.endStream : 0, stream: id, payload: next.payload });
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

/** Returns the error of a stream that the server has closed. */
function reset(code: string): Error {
  return Object.assign(new Error(`the server closed the stream with ${code}`), { code });
}

function closed(cause?: Error): Error {
  return new Error('the server closed the connection', { cause });
}

function isClosed(error: Error): boolean {
  return ['ECONNRESET', 'EPIPE'].includes(errnoOf(error) ?? '');
}
