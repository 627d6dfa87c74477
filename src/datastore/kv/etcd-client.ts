import { type Client, createClient } from '@connectrpc/connect';
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node';
import type { KvConnection } from '../../netconf/connection.ts';
import { outOfTime } from '../out-of-time.ts';
import { findEndpoints } from './find-endpoints.ts';
import { KV, type RangeResponse, type TxnRequest, type TxnResponse } from './gen/etcd_pb.js';
import type { RangeInit } from './requests.ts';
import { readTlsFiles } from './tls-files.ts';
import { errorOf, judge, type Verdict } from './translate-error.ts';

export interface ClientLimits {
  /** For TCP and TLS with one endpoint. */
  readonly connectMs: number;
  /** For a read, while there are other endpoints to ask. */
  readonly impatientMs: number;
  /** For a read from the last endpoint, and for every write. */
  readonly answerMs: number;
}
export const DEFAULT_LIMITS: ClientLimits = { connectMs: 3000, impatientMs: 3000, answerMs: 10_000 };

export interface ClientOptions {
  readonly limits: ClientLimits;
  /** A cheap read that the caller may make, to find an endpoint that answers. */
  readonly probe: RangeInit;
  /** Called with the method of every request sent. */
  readonly onRequest: (method: string) => void;
}

/** One endpoint and the connection to it, made when first used and again when lost. */
interface Channel {
  readonly origin: string;
  readonly session: Http2SessionManager;
  readonly kv: Client<typeof KV>;
  isProven: boolean;
}

type Send<T> = (kv: Client<typeof KV>, signal: AbortSignal) => Promise<T>;

/** etcd's KV service over whichever endpoint answers. Connects on first use. */
export class EtcdClient implements AsyncDisposable {
  readonly #connection: KvConnection;
  readonly #options: ClientOptions;
  #channels: readonly Channel[] = [];
  #opening: Promise<readonly Channel[]> | undefined;
  /** Where the last answer came from: the first to be asked next. */
  #current = 0;

  constructor(connection: KvConnection, options: ClientOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  async range(request: RangeInit, signal: AbortSignal): Promise<RangeResponse> {
    return this.#read('Range', async (kv, limit) => kv.range(request, { signal: limit }), signal);
  }

  /** A transaction without effects: may be asked of several endpoints. */
  async read(request: TxnRequest, signal: AbortSignal): Promise<TxnResponse> {
    return this.#read('Txn', async (kv, limit) => kv.txn(request, { signal: limit }), signal);
  }

  /** A transaction with effects: sent once, to an endpoint that is known to answer. */
  async write(request: TxnRequest, signal: AbortSignal): Promise<TxnResponse> {
    const [channel] = await this.#inOrder(signal);
    if (channel?.isProven !== true || channel.session.state() === 'error' || channel.session.state() === 'closed') {
      await this.range(this.#options.probe, signal);
    }
    const [proven] = await this.#inOrder(signal);
    if (proven === undefined) throw errorOf({ code: 'store/unavailable', reason: 'no endpoint is known' }, 'at all');
    const result = await this.#ask(proven, 'Txn', {
      send: async (kv, limit) => kv.txn(request, { signal: limit }),
      limitMs: this.#options.limits.answerMs,
      signal,
    });
    if ('answer' in result) return result.answer;
    const { verdict, cause } = result;
    const unknown = verdict.isFinal ? '' : '; it is not known whether the change was made';
    if (signal.aborted) throw outOfTime(signal, `waiting for an answer of ${proven.origin}${unknown}`);
    throw errorOf({ ...verdict, reason: `${verdict.reason}${unknown}` }, `at ${proven.origin}`, cause);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { session } of this.#channels) session.abort();
    this.#channels = [];
    this.#opening = undefined;
    await Promise.resolve();
  }

  async #read<T>(method: string, send: Send<T>, signal: AbortSignal): Promise<T> {
    const channels = await this.#inOrder(signal);
    const failures: { readonly origin: string; readonly verdict: Verdict; readonly cause: unknown }[] = [];
    for (const [index, channel] of channels.entries()) {
      const { impatientMs, answerMs } = this.#options.limits;
      const limitMs = index === channels.length - 1 ? answerMs : impatientMs;
      const result = await this.#ask(channel, method, { send, limitMs, signal });
      if ('answer' in result) return result.answer;
      if (signal.aborted) throw outOfTime(signal, `talking to ${channels.map(({ origin }) => origin).join(', ')}`);
      failures.push({ origin: channel.origin, ...result });
      if (result.verdict.isFinal) break;
    }
    // A refusal needs somebody to act; an endpoint that is merely down may come back by itself.
    const decisive = failures.find(({ verdict }) => verdict.code !== 'store/unavailable') ?? failures.at(-1);
    const where = `at ${failures.map(({ origin }) => origin).join(', ')}`;
    throw errorOf(decisive?.verdict ?? { code: 'store/unavailable', reason: 'closed' }, where, decisive?.cause);
  }

  async #ask<T>(
    channel: Channel,
    method: string,
    { send, limitMs, signal }: { send: Send<T>; limitMs: number; signal: AbortSignal },
  ): Promise<{ readonly answer: T } | { readonly verdict: Verdict; readonly cause: unknown }> {
    const isUnprovenTls = channel.origin.startsWith('https:') && !channel.isProven;
    const failed = (...causes: readonly unknown[]): { verdict: Verdict; cause: unknown } => ({
      verdict: judge(causes, { isUnprovenTls }),
      cause: causes[0],
    });
    const { connectMs } = this.#options.limits;
    if (!(await isConnected(channel.session, connectMs, signal))) {
      return failed(channel.session.error() ?? new Error(`no connection within ${String(connectMs)} ms`));
    }
    const limit = AbortSignal.timeout(limitMs);
    try {
      this.#options.onRequest(method);
      const answer = await send(channel.kv, AbortSignal.any([signal, limit]));
      channel.isProven = true;
      this.#current = Math.max(0, this.#channels.indexOf(channel));
      return { answer };
    } catch (cause) {
      if (!limit.aborted) return failed(cause, channel.session.error());
      // Nothing came back: the connection may be dead without anybody having noticed.
      if (!channel.isProven) channel.session.abort();
      return failed(new Error(`no answer within ${String(limitMs)} ms`));
    }
  }

  async #inOrder(signal: AbortSignal): Promise<readonly Channel[]> {
    if (signal.aborted) throw outOfTime(signal, 'waiting to talk to the kv datastore');
    const isShared = this.#opening !== undefined;
    this.#opening ??= this.#open(signal);
    try {
      this.#channels = await this.#opening;
    } catch (cause) {
      // The next call looks again: files and DNS records get repaired while an agent lives on.
      this.#opening = undefined;
      if (isShared) return this.#inOrder(signal);
      throw cause;
    }
    return [...this.#channels.slice(this.#current), ...this.#channels.slice(0, this.#current)];
  }

  async #open(signal: AbortSignal): Promise<readonly Channel[]> {
    const [tls, origins] = await Promise.all([
      readTlsFiles(this.#connection),
      findEndpoints(this.#connection.endpoints, signal),
    ]);
    return origins.map((origin) => {
      const options = origin.startsWith('https:') ? tls : {};
      const session = new Http2SessionManager(origin, { pingIntervalMs: 10_000, pingTimeoutMs: 3000 }, options);
      const transport = createGrpcTransport({ baseUrl: origin, sessionManager: session, acceptCompression: [] });
      return { origin, session, kv: createClient(KV, transport), isProven: false };
    });
  }
}

/** Waits for the connection; an attempt that takes too long ends for everybody, a caller who leaves leaves alone. */
async function isConnected(session: Http2SessionManager, limitMs: number, signal: AbortSignal): Promise<boolean> {
  const limit = AbortSignal.timeout(limitMs);
  const stop = (): void => session.abort();
  limit.addEventListener('abort', stop, { once: true });
  const connected = session.connect().then((state) => {
    limit.removeEventListener('abort', stop);
    return state !== 'error';
  });
  let leave = (): void => undefined;
  const left = new Promise<false>((resolve) => {
    leave = (): void => resolve(false);
    signal.addEventListener('abort', leave, { once: true });
  });
  try {
    return await Promise.race([connected, left]);
  } finally {
    signal.removeEventListener('abort', leave);
  }
}
