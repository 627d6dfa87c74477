import { type Clock, systemClock } from '../base/clock.ts';
import { outOfTime } from '../base/out-of-time.ts';
import { type Random, systemRandom } from '../base/random.ts';
import { type AccessSurroundings, type OrchAccess, reasonOf } from './access.ts';
import { type Answer, apiError, judgeAnswer, type Verdict } from './answers.ts';
import { type ApiObject, type Page, readObject, readPage } from './objects.ts';
import { type Collection, collectionPath, objectPath } from './paths.ts';
import { credentialHeaders, describeCredential, type Session } from './session.ts';
import { SessionKeeper } from './session-keeper.ts';
import { isTlsRefusal, isUnsent, type RawRequest, Transport } from './transport.ts';

export interface OrchApiLimits {
  /** For one answer. */
  readonly answerMs: number;
  /** How long a call goes on trying while the API is down, restarting or busy; the signal may end it before. */
  readonly patienceMs: number;
}
const DEFAULT_LIMITS: OrchApiLimits = { answerMs: 10_000, patienceMs: 20_000 };

export interface OrchApiOptions {
  /** Variables of the process: in-cluster access and credential plugins read them. */
  readonly env?: AccessSurroundings['env'];
  readonly clock?: Clock;
  readonly random?: Random;
  readonly limits?: Partial<OrchApiLimits>;
  /** How many objects one request of a long listing fetches. */
  readonly pageSize?: number;
  /** Called with verb and kind of every request sent, such as `get pods`, to count them. */
  readonly onRequest?: (what: string) => void;
}

export interface ListOptions {
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** `names` leaves everything but the metadata away. */
  readonly only?: 'names';
}

/** `merge` is RFC 7396, `json` RFC 6902. */
export type Patch =
  | { readonly kind: 'merge'; readonly body: unknown }
  | { readonly kind: 'json'; readonly body: readonly unknown[] };

/** Only the object that was read is deleted. */
export interface Preconditions {
  readonly uid?: string;
  readonly resourceVersion?: string;
}

interface Call extends Omit<RawRequest, 'headers'> {
  readonly what: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether to go on trying while the API does not serve. */
  readonly isPatient: boolean;
}

/**
 * The API of the orchestrator, as little of it as the per-pod path needs. Every request may be repeated: reads by
 * nature, writes because each names the version, the name or the outcome it wants. Connects on first use.
 * Every method throws store/unavailable, store/refused and store/config-invalid.
 */
export class OrchApi implements AsyncDisposable {
  readonly #keeper: SessionKeeper;
  readonly #transport = new Transport();
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #limits: OrchApiLimits;
  readonly #pageSize: number;
  readonly #onRequest: (what: string) => void;

  constructor(access: OrchAccess, options: OrchApiOptions = {}) {
    const { env = {}, clock = systemClock, random = systemRandom, limits, pageSize = 500, onRequest } = options;
    this.#keeper = new SessionKeeper(access, { env, now: () => clock.now() });
    this.#clock = clock;
    this.#random = random;
    this.#limits = { ...DEFAULT_LIMITS, ...limits };
    this.#pageSize = pageSize;
    this.#onRequest = onRequest ?? ((): void => undefined);
  }

  async get(collection: Collection, name: string, signal: AbortSignal): Promise<Answer<ApiObject>> {
    return this.#object({ ...call('get', collection), path: objectPath(collection, name) }, signal);
  }

  /** Answers once, whatever it says: no patience. */
  async probe(collection: Collection, name: string, signal: AbortSignal): Promise<Answer<ApiObject>> {
    const path = objectPath(collection, name);
    return this.#object({ ...call('get', collection), path, isPatient: false }, signal);
  }

  /** Everything there is at one moment, fetched a page at a time so that no answer grows without bound. */
  async list(collection: Collection, options: ListOptions, signal: AbortSignal): Promise<readonly ApiObject[]> {
    for (let attempt = 1; ; attempt += 1) {
      // The API forgets where a long listing was after some minutes; the last try takes all in one answer.
      const limit = attempt < 3 ? this.#pageSize : undefined;
      const all = await this.#listOnce(collection, { ...options, limit }, signal);
      if (all !== undefined) return all;
    }
  }

  async create(collection: Collection, object: unknown, signal: AbortSignal): Promise<Answer<ApiObject>> {
    return this.#object(
      { ...call('create', collection), method: 'POST', path: collectionPath(collection), body: JSON.stringify(object) },
      signal,
    );
  }

  /** Puts the object in the place of the one with its name and, when it carries one, its resourceVersion. */
  async replace(
    collection: Collection,
    object: { readonly metadata: { readonly name: string } },
    signal: AbortSignal,
  ): Promise<Answer<ApiObject>> {
    const path = objectPath(collection, object.metadata.name);
    return this.#object({ ...call('update', collection), method: 'PUT', path, body: JSON.stringify(object) }, signal);
  }

  async patch(
    which: { readonly collection: Collection; readonly name: string },
    patch: Patch,
    signal: AbortSignal,
  ): Promise<Answer<ApiObject>> {
    const type = patch.kind === 'merge' ? 'application/merge-patch+json' : 'application/json-patch+json';
    return this.#object(
      {
        ...call('patch', which.collection),
        method: 'PATCH',
        path: objectPath(which.collection, which.name),
        body: JSON.stringify(patch.body),
        headers: { 'content-type': type },
      },
      signal,
    );
  }

  async delete(
    which: { readonly collection: Collection; readonly name: string; readonly preconditions: Preconditions },
    signal: AbortSignal,
  ): Promise<Answer<undefined>> {
    const { collection, name, preconditions } = which;
    const body = JSON.stringify({ kind: 'DeleteOptions', apiVersion: 'v1', preconditions });
    const path = objectPath(collection, name);
    const answer = await this.#ask({ ...call('delete', collection), method: 'DELETE', path, body }, signal);
    return answer.outcome === 'ok' ? { outcome: 'ok', value: undefined } : answer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#transport.close();
    await Promise.resolve();
  }

  /** Undefined when the API has forgotten where the listing was. */
  async #listOnce(
    collection: Collection,
    { labelSelector, fieldSelector, only, limit }: ListOptions & { readonly limit: number | undefined },
    signal: AbortSignal,
  ): Promise<readonly ApiObject[] | undefined> {
    const found: ApiObject[] = [];
    let next: string | undefined;
    do {
      const query = new URLSearchParams({
        ...(labelSelector === undefined ? {} : { labelSelector }),
        ...(fieldSelector === undefined ? {} : { fieldSelector }),
        ...(limit === undefined ? {} : { limit: String(limit) }),
        ...(next === undefined ? {} : { continue: next }),
      });
      const accept = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';
      const answer = await this.#ask(
        {
          ...call('list', collection),
          path: `${collectionPath(collection)}?${query.toString()}`,
          ...(only === undefined ? {} : { headers: { accept } }),
        },
        signal,
      );
      if (answer.outcome === 'gone') return undefined;
      const page: Page = await this.#insist(answer, readPage, signal);
      found.push(...page.items);
      next = page.next;
    } while (next !== undefined);
    return found;
  }

  async #object(request: Call, signal: AbortSignal): Promise<Answer<ApiObject>> {
    const answer = await this.#ask(request, signal);
    if (answer.outcome !== 'ok') return answer;
    return { outcome: 'ok', value: await this.#insist(answer, readObject, signal) };
  }

  async #insist<T>(answer: Answer<unknown>, read: (raw: unknown) => T | undefined, signal: AbortSignal): Promise<T> {
    const value = answer.outcome === 'ok' ? read(answer.value) : undefined;
    if (value !== undefined) return value;
    const reason = answer.outcome === 'ok' ? 'the answer is not what it should be' : answer.message;
    throw apiError('store/unavailable', {
      reason,
      session: await this.#keeper.current(signal),
      now: this.#clock.now(),
    });
  }

  async #ask(request: Call, signal: AbortSignal): Promise<Answer<unknown>> {
    const endsAt = this.#clock.monotonic() + (request.isPatient ? this.#limits.patienceMs : 0);
    if (signal.aborted) throw outOfTime(signal, 'waiting to talk to the API of the orchestrator');
    let session = await this.#keeper.current(signal);
    let mayBeOurs = false;
    let isRenewed = false;
    for (let attempt = 0; ; attempt += 1) {
      const { verdict, cause } = await this.#try(session, request, { signal, mayBeOurs });
      const fail = (code: 'store/unavailable' | 'store/refused', reason: string): Error =>
        apiError(code, { reason, session, now: this.#clock.now(), cause });
      switch (verdict.kind) {
        case 'ok':
          return { outcome: 'ok', value: verdict.body };
        case 'refusal':
          return { outcome: verdict.outcome, message: verdict.message, mayBeOurs };
        case 'foreign':
          throw fail('store/unavailable', verdict.message);
        case 'forbidden':
          throw fail('store/refused', verdict.message);
        case 'unauthorized':
          if (isRenewed) {
            const who = describeCredential(session.credential, this.#clock.now());
            throw fail('store/refused', `it does not accept ${who}`);
          }
          isRenewed = true;
          session = await this.#keeper.renew(session, signal);
          break;
        case 'transient': {
          mayBeOurs ||= !verdict.isUnsent;
          const waitMs = verdict.waitMs ?? 50 * 2 ** Math.min(attempt, 5) + this.#random.int(50);
          if (this.#clock.monotonic() + waitMs >= endsAt) {
            const isUnknown = mayBeOurs && request.method !== 'GET';
            const unknown = isUnknown ? '; it is not known whether the change was made' : '';
            throw fail('store/unavailable', `${verdict.message}${unknown}`);
          }
          await this.#wait(waitMs, signal, verdict.message);
          session = await this.#keeper.current(signal);
          break;
        }
      }
    }
  }

  async #try(
    session: Session,
    request: Call,
    { signal, mayBeOurs }: { signal: AbortSignal; mayBeOurs: boolean },
  ): Promise<{ readonly verdict: Verdict; readonly cause?: unknown }> {
    const { method, path, body } = request;
    const limit = AbortSignal.timeout(this.#limits.answerMs);
    const headers = {
      accept: 'application/json',
      'user-agent': 'netplug',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...request.headers,
      ...credentialHeaders(session.credential),
    };
    this.#onRequest(request.what);
    try {
      const answer = await this.#transport.send(
        session,
        { method, path, body, headers },
        AbortSignal.any([signal, limit]),
      );
      return { verdict: judgeAnswer(answer) };
    } catch (cause) {
      if (signal.aborted) {
        const unknown = method === 'GET' ? '' : '; it is not known whether the change was made';
        throw outOfTime(signal, `waiting for an answer of ${session.server.origin}${unknown}`);
      }
      if (isTlsRefusal(cause) && !mayBeOurs) {
        throw apiError('store/refused', { reason: reasonOf(cause), session, now: this.#clock.now(), cause });
      }
      const message = limit.aborted ? `no answer within ${String(this.#limits.answerMs)} ms` : reasonOf(cause);
      return { verdict: { kind: 'transient', message, waitMs: undefined, isUnsent: isUnsent(cause) }, cause };
    }
  }

  async #wait(ms: number, signal: AbortSignal, why: string): Promise<void> {
    try {
      await this.#clock.sleep(ms, signal);
    } catch (cause) {
      if (!signal.aborted) throw cause;
      throw outOfTime(signal, `waiting for the API of the orchestrator to serve again (${why})`);
    }
  }
}

function call(verb: string, { plural }: Collection): Call {
  return { what: `${verb} ${plural}`, method: 'GET', path: '', body: undefined, isPatient: true };
}
