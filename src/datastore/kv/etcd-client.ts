import type { Channel as Queue } from '../../base/channel.ts';
import { timeLimit } from '../../base/clock.ts';
import type { NetplugError } from '../../base/errors.ts';
import type { KvConnection } from '../../config/connection.ts';
import { isUnencrypted } from '../../config/require-tls.ts';
import { timedOut } from '../../base/timed-out.ts';
import { untilAborted } from '../../base/until-aborted.ts';
import { notLeader } from '../not-leader.ts';
import { findEndpoints } from './find-endpoints.ts';
import type {
  LeaseGrantResponse,
  LeaseKeepAliveRequest,
  LeaseKeepAliveResponse,
  RangeResponse,
  TxnRequest,
  TxnResponse,
  WatchRequest,
  WatchResponse,
} from '../../../proto/gen/etcd.ts';
import { followStream } from './follow-stream.ts';
import { renewalStream } from './renewal-stream.ts';
import { type EtcdEndpoint, openEndpoint } from './etcd-endpoint.ts';
import { get, leased, type LeasedKey, type RangeInit, rangeRequest, rangesIn, txn } from './requests.ts';
import { readTlsFiles } from './tls-files.ts';
import { etcdError, judge, type EtcdFailure } from './translate-error.ts';

export interface ClientLimits {
  /** For TCP and TLS with one endpoint. */
  readonly connectMs: number;
  /** For a read, while there are other endpoints to ask. */
  readonly firstTryMs: number;
  /** For a read from the last endpoint, and for every write. */
  readonly answerMs: number;
  /** Maximum silence of a watch; probed three times as often, which costs CPU on both sides. */
  readonly silenceMs: number;
}
export const ETCD_LIMITS: ClientLimits = {
  connectMs: 3000,
  firstTryMs: 3000,
  answerMs: 10_000,
  silenceMs: 15_000,
};

export interface ClientOptions {
  readonly limits: ClientLimits;
  /** Called with the method of every request sent. */
  readonly onRequest: (method: string) => void;
  /** Returns the key that must be as it is for every write; undefined when none may be made. */
  readonly fence?: () => LeasedKey | undefined;
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

type Send<T> = (endpoint: EtcdEndpoint, signal: AbortSignal) => Promise<T>;

/** etcd's KV and Watch services over whichever endpoint answers. Connects on first use. */
export class EtcdClient implements AsyncDisposable {
  readonly #connection: KvConnection;
  readonly #options: ClientOptions;
  #endpoints: readonly EtcdEndpoint[] = [];
  #opening: Promise<readonly EtcdEndpoint[]> | undefined;
  /** Index of the endpoint that answered last: the first to be asked next. */
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
   * Number of times that etcd has answered at an older revision than before. Reads are linearizable, so that this
   * happens only after a restore of older data.
   */
  get rollbacks(): number {
    return this.#rollbacks;
  }

  /** Returns the origins that are in use, and those that a new client would use. */
  async origins(signal: AbortSignal): Promise<readonly string[]> {
    const found = await findEndpoints(this.#connection, { wasEncrypted: this.#wasEncrypted, signal });
    return [...new Set([...this.#endpoints.map(({ origin }) => origin), ...found])];
  }

  async range(request: RangeInit, signal: AbortSignal): Promise<RangeResponse> {
    return this.#dated(async () =>
      this.#read('Range', async ({ kv }, limit) => kv.range(rangeRequest(request), limit), signal),
    );
  }

  /** A transaction without effects: may be asked of several endpoints. */
  async read(request: TxnRequest, signal: AbortSignal): Promise<TxnResponse> {
    return this.#dated(async () => this.#read('Txn', async ({ kv }, limit) => kv.txn(request, limit), signal));
  }

  /** A transaction with effects: sent once, over the first connection that stands. @throws store/not-leader behind a fence */
  async write(request: TxnRequest, signal: AbortSignal): Promise<TxnResponse> {
    const { fence } = this.#options;
    if (fence === undefined) return this.#write(request, signal);
    const held = fence();
    if (held === undefined) throw notLeader();
    const answer = await this.#write(
      txn({
        compare: [...request.compare, leased(held)],
        success: request.success,
        failure: [...request.failure, get(held.key)],
      }),
      signal,
    );
    if (answer.succeeded) return answer;
    if (rangesIn(answer).at(-1)?.[0]?.lease !== held.lease) throw notLeader();
    return { ...answer, responses: answer.responses.slice(0, -1) };
  }

  async #write(request: TxnRequest, signal: AbortSignal): Promise<TxnResponse> {
    return this.#sendOnce('Txn', async ({ kv }, limit) => kv.txn(request, limit), signal);
  }

  /** Returns the id of a new lease of at least that long. */
  async grantLease(ttlS: number, signal: AbortSignal): Promise<bigint> {
    const send: Send<LeaseGrantResponse> = async ({ lease }, limit) => lease.grant(BigInt(ttlS), limit);
    return (await this.#sendOnce('LeaseGrant', send, signal)).ID;
  }

  /** Deletes a lease with its keys. @throws store/* also when there is no such lease */
  async revokeLease(id: bigint, signal: AbortSignal): Promise<void> {
    await this.#sendOnce('LeaseRevoke', async ({ lease }, limit) => lease.revoke(id, limit), signal);
  }

  /** Sends a request with effects once, over the first connection that stands. */
  async #sendOnce<T extends Dated>(method: string, send: Send<T>, signal: AbortSignal): Promise<T> {
    const endpoint = await this.#connected(signal);
    const limitMs = this.#options.limits.answerMs;
    const result = await this.#ask(endpoint, method, { send, limitMs, signal });
    if ('answer' in result) {
      this.#note(result.answer);
      return result.answer;
    }
    const unknown = result.verdict.isFinal ? '' : '; it is not known whether the change was made';
    if (signal.aborted) throw timedOut(signal, `waiting for an answer of ${endpoint.origin}${unknown}`);
    throw etcdError(
      { ...result.verdict, reason: `${result.verdict.reason}${unknown}` },
      `at ${endpoint.origin}`,
      result.cause,
    );
  }

  /** One stream of watches. It ends only with an error, also when the server stops responding. */
  watch(requests: Queue<WatchRequest>, signal: AbortSignal): AsyncGenerator<WatchResponse> {
    const { silenceMs } = this.#options.limits;
    return this.#stream('Watch', (endpoint) => followStream(endpoint, { requests, silenceMs, signal }), signal);
  }

  /** One stream of renewals, a response for each request. It ends only with an error. */
  renewals(requests: Queue<LeaseKeepAliveRequest>, signal: AbortSignal): AsyncGenerator<LeaseKeepAliveResponse> {
    return this.#stream('LeaseKeepAlive', (endpoint) => renewalStream(endpoint, { requests, signal }), signal);
  }

  /** Yields the responses of a stream over the first connection that stands. */
  async *#stream<T extends Dated>(
    method: string,
    open: (endpoint: EtcdEndpoint) => AsyncIterable<T>,
    signal: AbortSignal,
  ): AsyncGenerator<T> {
    const endpoint = await this.#connected(signal);
    this.#options.onRequest(method);
    try {
      for await (const response of open(endpoint)) {
        this.#note(response);
        yield response;
      }
    } catch (cause) {
      // It may be cut off from the other members: the next stream begins elsewhere, after the last one at the first.
      if (!signal.aborted) this.#current = this.#endpoints.indexOf(endpoint) + 1;
      throw cause;
    }
  }

  /** Returns the first endpoint of which the connection stands. @throws store/unavailable, store/refused */
  async #connected(signal: AbortSignal): Promise<EtcdEndpoint> {
    const failures: Failure[] = [];
    const endpoints = await this.#inOrder(signal);
    for (const endpoint of endpoints) {
      const failure = await this.#connect(endpoint, { signal, endpoints });
      if (failure === undefined) return endpoint;
      failures.push(failure);
    }
    throw this.#giveUp(failures);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { connection } of this.#endpoints) connection.close();
    this.#endpoints = [];
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
    if (!this.#endpoints.some(({ connection }) => connection.isOpen)) {
      for (const { connection } of this.#endpoints) connection.close();
      this.#opening = undefined;
      this.#current = 0;
    }
    return summaryOf(failures);
  }

  async #read<T>(method: string, send: Send<T>, signal: AbortSignal): Promise<T> {
    const endpoints = await this.#inOrder(signal);
    const failures: Failure[] = [];
    // A connection that stood before may have died unnoticed: its endpoint gets a second chance over a new one.
    const again = endpoints.slice(0, 1).filter(({ connection }) => connection.isOpen);
    const tries = [...endpoints, ...again];
    for (const [index, endpoint] of tries.entries()) {
      const refusal = await this.#connect(endpoint, { signal, endpoints });
      if (refusal !== undefined) {
        failures.push(refusal);
        continue;
      }
      const { firstTryMs, answerMs } = this.#options.limits;
      const limitMs = index === tries.length - 1 ? answerMs : firstTryMs;
      const result = await this.#ask(endpoint, method, { send, limitMs, signal });
      if ('answer' in result) return result.answer;
      if (signal.aborted) throw timedOut(signal, talkingTo(endpoints));
      failures.push(result);
      if (result.verdict.isFinal) break;
    }
    throw this.#giveUp(failures);
  }

  /** Undefined when the connection stands. */
  async #connect(
    endpoint: EtcdEndpoint,
    { signal, endpoints }: { signal: AbortSignal; endpoints: readonly EtcdEndpoint[] },
  ): Promise<Failure | undefined> {
    const { origin, connection } = endpoint;
    const failure = await untilAborted(connection.connect(), signal).then(
      () => undefined,
      (cause: unknown) => ({ origin, verdict: judge(cause), cause }),
    );
    if (signal.aborted) throw timedOut(signal, talkingTo(endpoints));
    return failure;
  }

  async #ask<T>(
    endpoint: EtcdEndpoint,
    method: string,
    { send, limitMs, signal }: { send: Send<T>; limitMs: number; signal: AbortSignal },
  ): Promise<{ readonly answer: T } | Failure> {
    using limit = timeLimit(limitMs);
    try {
      this.#options.onRequest(method);
      const answer = await send(endpoint, AbortSignal.any([signal, limit.signal]));
      this.#current = Math.max(0, this.#endpoints.indexOf(endpoint));
      return { answer };
    } catch (error) {
      const isLate = limit.signal.aborted && !signal.aborted;
      if (isLate) endpoint.connection.suspect();
      const cause = isLate ? new Error(`no answer within ${String(limitMs)} ms`, { cause: error }) : error;
      return { origin: endpoint.origin, verdict: judge(cause), cause };
    }
  }

  async #inOrder(signal: AbortSignal): Promise<readonly EtcdEndpoint[]> {
    if (signal.aborted) throw timedOut(signal, 'waiting to talk to the kv datastore');
    const isShared = this.#opening !== undefined;
    this.#opening ??= this.#open(signal);
    try {
      this.#endpoints = await this.#opening;
    } catch (cause) {
      // The next call looks again: files and DNS records get repaired while an agent lives on.
      this.#opening = undefined;
      if (isShared) return this.#inOrder(signal);
      throw cause;
    }
    return [...this.#endpoints.slice(this.#current), ...this.#endpoints.slice(0, this.#current)];
  }

  async #open(signal: AbortSignal): Promise<readonly EtcdEndpoint[]> {
    const [tls, origins] = await Promise.all([
      readTlsFiles(this.#connection),
      findEndpoints(this.#connection, { wasEncrypted: this.#wasEncrypted, signal }),
    ]);
    this.#wasEncrypted ||= origins.every((origin) => !isUnencrypted(origin));
    const { connectMs } = this.#options.limits;
    return origins.map((origin) => openEndpoint(origin, { tls: isUnencrypted(origin) ? {} : tls, connectMs }));
  }
}

function talkingTo(endpoints: readonly EtcdEndpoint[]): string {
  return `talking to ${endpoints.map(({ origin }) => origin).join(', ')}`;
}

/** Returns one error for all endpoints. A refusal, which needs the user to act, wins over an unavailable endpoint. */
function summaryOf(failures: readonly Failure[]): NetplugError {
  const decisive = failures.find(({ verdict }) => verdict.code !== 'store/unavailable') ?? failures.at(-1);
  const where = `at ${[...new Set(failures.map(({ origin }) => origin))].join(', ')}`;
  return etcdError(decisive?.verdict ?? { code: 'store/unavailable', reason: 'it is closed' }, where, decisive?.cause);
}
