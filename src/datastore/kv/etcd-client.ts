import { type Client, Code, ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import type { Channel as Queue } from '../../base/channel.ts';
import { timeLimit } from '../../base/clock.ts';
import type { NetplugError } from '../../base/errors.ts';
import type { KvConnection } from '../../config/connection.ts';
import { isUnencrypted } from '../../config/require-tls.ts';
import { timedOut } from '../../base/timed-out.ts';
import { findEndpoints } from './find-endpoints.ts';
import {
  Lease,
  type LeaseKeepAliveResponse,
  type RangeResponse,
  type TxnRequest,
  type TxnResponse,
  Watch,
  type WatchResponse,
} from '../../../proto/gen/etcd_pb.js';
import { followStream, type WatchInit } from './follow-stream.ts';
import { Http2Connection } from './http2-connection.ts';
import type { RangeInit } from './requests.ts';
import { readTlsFiles } from './tls-files.ts';
import { etcdError, judge, type EtcdFailure } from './translate-error.ts';
import { type UnaryKv, unaryKv } from './unary-kv.ts';

export interface ClientLimits {
  /** For TCP and TLS with one endpoint. */
  readonly connectMs: number;
  /** For a read, while there are other endpoints to ask. */
  readonly firstTryMs: number;
  /** For a read from the last endpoint, and for every write. */
  readonly answerMs: number;
  /** Maximum silence of a watch; probed three times as often. */
  readonly silenceMs: number;
}
export const ETCD_LIMITS: ClientLimits = {
  connectMs: 3000,
  firstTryMs: 3000,
  answerMs: 10_000,
  silenceMs: 9000,
};

export interface ClientOptions {
  readonly limits: ClientLimits;
  /** Called with the method of every request sent. */
  readonly onRequest: (method: string) => void;
}

/** One endpoint and the connection to it, made when first used and again when lost. */
interface Channel {
  readonly origin: string;
  readonly connection: Http2Connection;
  readonly kv: UnaryKv;
  readonly lease: Client<typeof Lease>;
  readonly watch: Client<typeof Watch>;
}

/** A response that may have the revision of the state that it was read from. */
interface Dated {
  readonly header?: { readonly revision: bigint } | undefined;
}

/** One endpoint that did not do as asked. */
interface Failure {
  readonly origin: string;
  readonly verdict: EtcdFailure;
  readonly cause: unknown;
}

type Send<T> = (channel: Channel, signal: AbortSignal) => Promise<T>;

/** etcd's KV and Watch services over whichever endpoint answers. Connects on first use. */
export class EtcdClient implements AsyncDisposable {
  readonly #connection: KvConnection;
  readonly #options: ClientOptions;
  #channels: readonly Channel[] = [];
  #opening: Promise<readonly Channel[]> | undefined;
  /** Where the last answer came from: the first to be asked next. */
  #current = 0;
  /** Whether endpoints were encrypted once: a later discovery must not lead to plain ones. */
  #wasEncrypted = false;
  /** The newest revision of all responses. */
  #revision = 0n;
  #rollbacks = 0;

  constructor(connection: KvConnection, options: ClientOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  /**
   * How often etcd has answered at an older revision than before. Reads are linearizable, so that this happens only after
   * a restore of older data.
   */
  get rollbacks(): number {
    return this.#rollbacks;
  }

  async range(request: RangeInit, signal: AbortSignal): Promise<RangeResponse> {
    return this.#dated(async () => this.#read('Range', async ({ kv }, limit) => kv.range(request, limit), signal));
  }

  /** A transaction without effects: may be asked of several endpoints. */
  async read(request: TxnRequest, signal: AbortSignal): Promise<TxnResponse> {
    return this.#dated(async () => this.#read('Txn', async ({ kv }, limit) => kv.txn(request, limit), signal));
  }

  /** A transaction with effects: sent once, over the first connection that stands. */
  async write(request: TxnRequest, signal: AbortSignal): Promise<TxnResponse> {
    return this.#sendOnce('Txn', async ({ kv }, limit) => kv.txn(request, limit), signal);
  }

  /** Returns the id of a new lease of at least that long. */
  async grantLease(ttlS: number, signal: AbortSignal): Promise<bigint> {
    const request = { TTL: BigInt(ttlS) };
    return (
      await this.#sendOnce(
        'LeaseGrant',
        async ({ lease }, limit) => lease.leaseGrant(request, { signal: limit }),
        signal,
      )
    ).ID;
  }

  /** Renews a lease. Returns false when it does not exist. */
  async keepLeaseAlive(id: bigint, signal: AbortSignal): Promise<boolean> {
    const send: Send<LeaseKeepAliveResponse> = async ({ lease }, limit) => {
      for await (const response of lease.leaseKeepAlive(only({ ID: id }), { signal: limit })) return response;
      throw new ConnectError('the stream ended without an answer', Code.Unavailable);
    };
    return (await this.#sendOnce('LeaseKeepAlive', send, signal)).TTL > 0n;
  }

  /** Deletes a lease with its keys. @throws store/* also when there is no such lease */
  async revokeLease(id: bigint, signal: AbortSignal): Promise<void> {
    await this.#sendOnce(
      'LeaseRevoke',
      async ({ lease }, limit) => lease.leaseRevoke({ ID: id }, { signal: limit }),
      signal,
    );
  }

  /** Sends a request with effects once, over the first connection that stands. */
  async #sendOnce<T extends Dated>(method: string, send: Send<T>, signal: AbortSignal): Promise<T> {
    const failures: Failure[] = [];
    const channels = await this.#inOrder(signal);
    for (const channel of channels) {
      const failure = await this.#connect(channel, { signal, channels });
      if (failure !== undefined) {
        failures.push(failure);
        continue;
      }
      const limitMs = this.#options.limits.answerMs;
      const result = await this.#ask(channel, method, { send, limitMs, signal });
      if ('answer' in result) {
        this.#note(result.answer);
        return result.answer;
      }
      const unknown = result.verdict.isFinal ? '' : '; it is not known whether the change was made';
      if (signal.aborted) throw timedOut(signal, `waiting for an answer of ${channel.origin}${unknown}`);
      throw etcdError(
        { ...result.verdict, reason: `${result.verdict.reason}${unknown}` },
        `at ${channel.origin}`,
        result.cause,
      );
    }
    throw this.#giveUp(failures);
  }

  /** One stream over the first connection that stands. It ends only with an error, also when the server stops responding. */
  async *watch(requests: Queue<WatchInit>, signal: AbortSignal): AsyncGenerator<WatchResponse> {
    const failures: Failure[] = [];
    const channels = await this.#inOrder(signal);
    for (const channel of channels) {
      const failure = await this.#connect(channel, { signal, channels });
      if (failure === undefined) {
        this.#options.onRequest('Watch');
        const { silenceMs } = this.#options.limits;
        for await (const response of followStream(channel, { requests, silenceMs, signal })) {
          this.#note(response);
          yield response;
        }
        return;
      }
      failures.push(failure);
    }
    throw this.#giveUp(failures);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { connection } of this.#channels) connection.close();
    this.#channels = [];
    this.#opening = undefined;
    await Promise.resolve();
  }

  /** Returns the response to a read, which is at least as new as every response before the read began. */
  async #dated<T extends Dated>(read: () => Promise<T>): Promise<T> {
    const before = this.#revision;
    const answer = await read();
    if ((answer.header?.revision ?? before) < before) {
      this.#rollbacks += 1;
      this.#revision = 0n;
    }
    this.#note(answer);
    return answer;
  }

  #note({ header }: Dated): void {
    if (header !== undefined && header.revision > this.#revision) this.#revision = header.revision;
  }

  /** Returns the error of the failures. Without an open connection, certificates and DNS records are read again next time. */
  #giveUp(failures: readonly Failure[]): NetplugError {
    if (!this.#channels.some(({ connection }) => connection.isOpen)) {
      for (const { connection } of this.#channels) connection.close();
      this.#opening = undefined;
      this.#current = 0;
    }
    return summaryOf(failures);
  }

  async #read<T>(method: string, send: Send<T>, signal: AbortSignal): Promise<T> {
    const channels = await this.#inOrder(signal);
    const failures: Failure[] = [];
    // A connection that stood before may have died unnoticed: its endpoint gets a second chance over a new one.
    const again = channels.slice(0, 1).filter(({ connection }) => connection.isOpen);
    const tries = [...channels, ...again];
    for (const [index, channel] of tries.entries()) {
      const refusal = await this.#connect(channel, { signal, channels });
      if (refusal !== undefined) {
        failures.push(refusal);
        continue;
      }
      const { firstTryMs, answerMs } = this.#options.limits;
      const limitMs = index === tries.length - 1 ? answerMs : firstTryMs;
      const result = await this.#ask(channel, method, { send, limitMs, signal });
      if ('answer' in result) return result.answer;
      if (signal.aborted) throw timedOut(signal, talkingTo(channels));
      failures.push(result);
      if (result.verdict.isFinal) break;
    }
    throw this.#giveUp(failures);
  }

  /** Undefined when the connection stands. */
  async #connect(
    { connection, origin }: Channel,
    { signal, channels }: { signal: AbortSignal; channels: readonly Channel[] },
  ): Promise<Failure | undefined> {
    const failure = await untilAborted(
      connection.connect().then(
        () => undefined,
        (cause: unknown) => ({ origin, verdict: judge(cause), cause }),
      ),
      signal,
    );
    if (signal.aborted) throw timedOut(signal, talkingTo(channels));
    return failure;
  }

  async #ask<T>(
    channel: Channel,
    method: string,
    { send, limitMs, signal }: { send: Send<T>; limitMs: number; signal: AbortSignal },
  ): Promise<{ readonly answer: T } | Failure> {
    using limit = timeLimit(limitMs);
    try {
      this.#options.onRequest(method);
      const answer = await send(channel, AbortSignal.any([signal, limit.signal]));
      this.#current = Math.max(0, this.#channels.indexOf(channel));
      return { answer };
    } catch (error) {
      const isLate = limit.signal.aborted && !signal.aborted;
      if (isLate) channel.connection.suspect();
      const cause = isLate ? new Error(`no answer within ${String(limitMs)} ms`, { cause: error }) : error;
      return { origin: channel.origin, verdict: judge(cause), cause };
    }
  }

  async #inOrder(signal: AbortSignal): Promise<readonly Channel[]> {
    if (signal.aborted) throw timedOut(signal, 'waiting to talk to the kv datastore');
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
      findEndpoints(this.#connection, { wasEncrypted: this.#wasEncrypted, signal }),
    ]);
    this.#wasEncrypted ||= origins.every((origin) => !isUnencrypted(origin));
    return origins.map((origin) => {
      const { connectMs } = this.#options.limits;
      const connection = new Http2Connection(origin, { tls: origin.startsWith('https:') ? tls : {}, connectMs });
      const common = { baseUrl: origin, acceptCompression: [] };
      const transport = createGrpcTransport({ ...common, sessionManager: connection });
      const lasting = createGrpcTransport({ ...common, sessionManager: connection.forWatches });
      return {
        origin,
        connection,
        kv: unaryKv(connection),
        lease: createClient(Lease, transport),
        watch: createClient(Watch, lasting),
      };
    });
  }
}

function talkingTo(channels: readonly Channel[]): string {
  return `talking to ${channels.map(({ origin }) => origin).join(', ')}`;
}

/** Returns one error for all endpoints. A refusal, which needs the user to act, wins over an unavailable endpoint. */
function summaryOf(failures: readonly Failure[]): NetplugError {
  const decisive = failures.find(({ verdict }) => verdict.code !== 'store/unavailable') ?? failures.at(-1);
  const where = `at ${[...new Set(failures.map(({ origin }) => origin))].join(', ')}`;
  return etcdError(decisive?.verdict ?? { code: 'store/unavailable', reason: 'it is closed' }, where, decisive?.cause);
}

async function* only<T>(item: T): AsyncGenerator<T> {
  yield item;
}

/** Waits for shared work; undefined when the signal aborts. The work then continues for other callers. */
async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  let leave = (): void => undefined;
  const left = new Promise<undefined>((resolve) => {
    leave = (): void => resolve(undefined);
    signal.addEventListener('abort', leave, { once: true });
  });
  try {
    return await Promise.race([work, left]);
  } finally {
    signal.removeEventListener('abort', leave);
  }
}
