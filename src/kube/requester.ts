import { timeLimit } from '../base/clock.ts';
import { reasonOf } from '../base/errors.ts';
import { timedOut } from '../base/timed-out.ts';
import { backOffMs, type RetryPorts, withJitter } from '../base/back-off.ts';
import { type ApiAnswer, apiError, judgeAnswer, type ApiVerdict } from './answers.ts';
import { credentialHeaders, describeCredential, refusedHint, type Session } from './session.ts';
import type { SessionCache } from './session-cache.ts';
import { SharedBackOff } from './shared-back-off.ts';
import { resumeDelayMs, type StreamEnd, watchTimeoutS } from './watch-pace.ts';
import {
  AnswerTooLarge,
  type AnswerBody,
  isTlsRefusal,
  isUnsent,
  type RawRequest,
  readAnswer,
  type Transport,
} from './transport.ts';

export interface OrchApiLimits {
  /** For one answer. */
  readonly answerMs: number;
  /** Time for which a call is retried while the API is down, restarting or busy, unless the signal aborts before. */
  readonly retryMs: number;
  /**
   * Number of connections that requests share. A process that serves one ADD would spend more time on the handshakes
   * of many connections than on responses. A program that serves many calls needs more.
   */
  readonly connections: number;
  /** The timeout of a watch without data from the API, which sends a bookmark every minute. */
  readonly silenceMs: number;
}
export const API_LIMITS: OrchApiLimits = {
  answerMs: 10_000,
  retryMs: 20_000,
  connections: 3,
  silenceMs: 90_000,
};

/** Time for one immediate retry, in case an idle connection was closed. */
const ONE_RETRY_MS = 150;
const BACK_OFF = { firstMs: 100, maxMs: 1600 };

/**
 * An API server that has just started refuses every request until it has read its roles. A request that every account may
 * make shows that it has. Where accounts lack that right, a refusal counts as final after this time.
 */
const ROLES_MS = 5000;
const ASKED_OF_ALL = {
  what: 'get version',
  method: 'GET',
  path: '/version',
  body: undefined,
  isRetried: false,
} as const;

const FOREIGN_HINT = 'Apply manifests/crds.yaml, and check that this is the URL of the API server';

export interface ApiRequest extends Omit<RawRequest, 'headers'> {
  /** Verb and kind, such as `get pods`. */
  readonly what: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether to retry while the API is unavailable. */
  readonly isRetried: boolean;
  /** The back-off group of a watch: when the API fails one watch, the others of the group wait too. */
  readonly watchFlow?: string;
  /** The body is a stream for as long as the caller reads it. It is aborted after `silenceMs` without a byte. */
  readonly isStream?: true;
  /** A longer answer is `too large`. */
  readonly mostBytes?: number;
}

export interface RequesterParts extends RetryPorts {
  readonly sessions: SessionCache;
  readonly transport: Transport;
  readonly limits: OrchApiLimits;
  readonly onRequest: (what: string) => void;
  readonly fence?: ((signal: AbortSignal) => Promise<void>) | undefined;
}

/** Sends requests until they have an answer: with a fresh credential after a 401, again while the API does not serve. */
export class Requester {
  readonly #parts: RequesterParts;
  readonly #watches: SharedBackOff;
  /** When the API last served this process, on the monotonic clock. */
  #servedAtMs = Number.NEGATIVE_INFINITY;

  constructor(parts: RequesterParts) {
    this.#parts = parts;
    this.#watches = new SharedBackOff(parts);
  }

  /** Milliseconds of the clock by which requests and watches are timed. */
  monotonicMs(): number {
    return this.#parts.clock.monotonic();
  }

  /** Returns for how many milliseconds the API has neither answered a request nor sent data of a watch. */
  silentMs(): number {
    return this.#parts.clock.monotonic() - this.#servedAtMs;
  }

  /** Notes that a watch has received data. */
  recordActivity(): void {
    this.#servedAtMs = this.#parts.clock.monotonic();
  }

  /** Returns the answer as a stream. */
  async open(request: ApiRequest, signal: AbortSignal): Promise<ApiAnswer<AnswerBody>> {
    const answer = await this.ask({ ...request, isStream: true }, signal);
    // A stream is what a call with `isStream` gets.
    return answer.outcome === 'ok' ? { outcome: 'ok', value: answer.value as AnswerBody } : answer;
  }

  /** Returns the error for an unusable response. */
  async unusable(reason: string, signal: AbortSignal): Promise<Error> {
    const session = await this.#parts.sessions.current(signal);
    return apiError('store/unavailable', { reason, session, now: this.#parts.clock.now() });
  }

  /** Waits before a watch resumes. */
  async rest(
    end: StreamEnd,
    { objects = 0, signal }: { readonly objects?: number; readonly signal: AbortSignal },
  ): Promise<void> {
    await this.#wait(resumeDelayMs(end, this.#parts.random, objects), signal, 'a watch ended');
  }

  /** Returns the lifetime that a watch asks for, in seconds. */
  watchTimeoutS(): number {
    return watchTimeoutS(this.#parts.random);
  }

  async ask(request: ApiRequest, signal: AbortSignal): Promise<ApiAnswer<unknown>> {
    const endsAt = this.#parts.clock.monotonic() + (request.isRetried ? this.#parts.limits.retryMs : ONE_RETRY_MS);
    if (signal.aborted) throw timedOut(signal, 'waiting to talk to the API of the orchestrator');
    let session = await this.#parts.sessions.current(signal);
    let mayBeOurs = false;
    let isRenewed = false;
    let knowsRoles = !request.isRetried;
    const rolesAt = this.#parts.clock.monotonic() + ROLES_MS;
    const flow = request.watchFlow;
    for (let attempt = 0; ; attempt += 1) {
      if (flow !== undefined) {
        await this.#during(async () => this.#watches.wait(flow, signal), { signal, why: 'watches rest' });
      }
      if (request.method !== 'GET') await this.#parts.fence?.(signal);
      const { verdict, cause } = await this.#try(session, request, { signal, mayBeOurs });
      const about = { session, now: this.#parts.clock.now(), cause };
      switch (verdict.kind) {
        case 'ok':
          this.recordActivity();
          if (flow !== undefined) this.#watches.served(flow);
          return { outcome: 'ok', value: verdict.body };
        case 'refusal':
          this.recordActivity();
          return { outcome: verdict.outcome, message: verdict.message, heldFields: verdict.heldFields, mayBeOurs };
        case 'foreign':
          throw apiError('store/unavailable', {
            ...about,
            reason: verdict.message,
            hint: FOREIGN_HINT,
            isUnknownKind: verdict.isUnknownKind,
          });
        case 'forbidden':
          if (knowsRoles) throw apiError('store/refused', { ...about, reason: verdict.message });
          knowsRoles = (await this.#knowsRoles(session, signal)) || this.#parts.clock.monotonic() >= rolesAt;
          if (!knowsRoles) await this.#wait(withJitter(200, this.#parts.random), signal, verdict.message);
          break;
        case 'unauthorized':
          if (isRenewed) {
            const who = describeCredential(session.credential, about.now);
            const hint = refusedHint(session.credential, about.now);
            const advised = hint === undefined ? about : { ...about, hint };
            throw apiError('store/refused', { ...advised, reason: `it does not accept ${who}` });
          }
          isRenewed = true;
          session = await this.#parts.sessions.renew(session, signal);
          break;
        case 'transient': {
          mayBeOurs ||= !verdict.isUnsent;
          if (flow !== undefined) this.#watches.refused(flow, verdict.waitMs);
          const failureMs = backOffMs(BACK_OFF, { failures: attempt + 1 }, this.#parts.random);
          // What the API asked a watch for is waited for at the head of the loop.
          const waitMs = flow === undefined ? (verdict.waitMs ?? failureMs) : failureMs;
          const leastMs = Math.max(waitMs, flow === undefined ? 0 : this.#watches.restMs(flow));
          if (this.#parts.clock.monotonic() + leastMs >= endsAt) {
            const isUnknown = mayBeOurs && request.method !== 'GET';
            const unknown = isUnknown ? '; it is not known whether the change was made' : '';
            throw apiError('store/unavailable', {
              ...about,
              reason: `${verdict.message}${unknown}`,
              status: verdict.status,
            });
          }
          await this.#wait(waitMs, signal, verdict.message);
          session = await this.#parts.sessions.current(signal);
          break;
        }
      }
    }
  }

  /** Reports whether the API accepts the credential, also one without rights. Tries once. @throws store/unavailable */
  async accepts(signal: AbortSignal): Promise<boolean> {
    const session = await this.#parts.sessions.current(signal);
    const { verdict, cause } = await this.#try(session, ASKED_OF_ALL, { signal, mayBeOurs: false });
    if (verdict.kind !== 'transient') return verdict.kind !== 'unauthorized';
    throw apiError('store/unavailable', { session, now: this.#parts.clock.now(), reason: verdict.message, cause });
  }

  async #knowsRoles(session: Session, signal: AbortSignal): Promise<boolean> {
    const { verdict } = await this.#try(session, ASKED_OF_ALL, { signal, mayBeOurs: false });
    return verdict.kind === 'ok';
  }

  async #try(
    session: Session,
    request: ApiRequest,
    { signal, mayBeOurs }: { signal: AbortSignal; mayBeOurs: boolean },
  ): Promise<{ readonly verdict: ApiVerdict; readonly cause?: unknown }> {
    const { method, path, body, isStream } = request;
    using limit = timeLimit(this.#parts.limits.answerMs);
    const headers = {
      accept: 'application/json',
      'user-agent': 'netplug',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...request.headers,
      ...credentialHeaders(session.credential),
    };
    this.#parts.onRequest(request.what);
    try {
      const { silenceMs } = this.#parts.limits;
      // The limit ends with this function: a stream that has begun lasts.
      const options = {
        signal: AbortSignal.any([signal, limit.signal]),
        ...(isStream === true ? { quietMs: silenceMs } : {}),
      };
      const answer = await this.#parts.transport.open(session, { method, path, body, headers }, options);
      if (isStream === true && answer.status === 200) return { verdict: { kind: 'ok', body: answer.body } };
      return { verdict: judgeAnswer(await readAnswer(answer, request.mostBytes)) };
    } catch (cause) {
      if (cause instanceof AnswerTooLarge)
        return { verdict: { kind: 'refusal', outcome: 'too large', message: cause.message, heldFields: [] } };
      if (signal.aborted) {
        const unknown = method === 'GET' ? '' : '; it is not known whether the change was made';
        throw timedOut(signal, `waiting for an answer of ${session.server.origin}${unknown}`);
      }
      if (isTlsRefusal(cause) && !mayBeOurs) {
        throw apiError('store/refused', { reason: reasonOf(cause), session, now: this.#parts.clock.now(), cause });
      }
      const message = limit.signal.aborted
        ? `no answer within ${String(this.#parts.limits.answerMs)} ms`
        : reasonOf(cause);
      return {
        verdict: { kind: 'transient', message, waitMs: undefined, isUnsent: isUnsent(cause), status: undefined },
        cause,
      };
    }
  }

  async #wait(ms: number, signal: AbortSignal, why: string): Promise<void> {
    await this.#during(async () => this.#parts.clock.sleep(ms, signal), { signal, why });
  }

  async #during(
    rest: () => Promise<void>,
    { signal, why }: { readonly signal: AbortSignal; readonly why: string },
  ): Promise<void> {
    try {
      await rest();
    } catch (cause) {
      if (!signal.aborted) throw cause;
      throw timedOut(signal, `waiting for the API of the orchestrator to serve again (${why})`);
    }
  }
}
