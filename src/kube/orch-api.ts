import { type Clock, systemClock, timeLimit } from '../base/clock.ts';
import { isNetplugError } from '../base/errors.ts';
import type { Mode } from '../base/mode.ts';
import { type Random, systemRandom } from '../base/random.ts';
import { untilAborted } from '../base/until-aborted.ts';
import { isRecord } from '../model/read-schema.ts';
import type { AccessInputs, OrchAccess } from './access.ts';
import type { ApiAnswer } from './answers.ts';
import { DISCOVERY, readServedKinds } from './discovery.ts';
import { type ApiObject, type Page, readObject, readPage } from './objects.ts';
import { type Collection, collectionPath, objectPath, SERVICE_ACCOUNTS } from './paths.ts';
import { type ApiRequest, API_LIMITS, type OrchApiLimits, Requester } from './requester.ts';
import { SessionCache } from './session-cache.ts';
import { type SharedEvent, SharedWatches, type StartWatch } from './shared-watches.ts';
import { type IssuedToken, readIssuedToken, type TokenSpec } from './token-request.ts';
import { Http1Transport, type Transport } from './transport.ts';
import { packedObject } from './packed-object.ts';
import { trimmedObject } from './trimmed-object.ts';
import { followChanges, type StreamState, type WatchEvent } from './watch.ts';

export interface OrchApiOptions {
  /** Variables of the process: in-cluster access and credential plugins read them. */
  readonly env?: AccessInputs['env'];
  readonly clock?: Clock;
  readonly random?: Random;
  readonly limits?: Partial<OrchApiLimits>;
  /** Number of objects that one request of a long listing fetches. */
  readonly pageSize?: number;
  /** The longest page that is read; asks for fewer objects instead. */
  readonly pageBytes?: number;
  /** Under which name the API notes that a field was written. */
  readonly manager?: string;
  /** Shared with other clients, and closed by its owner. A client without one has HTTP/1.1 connections of its own. */
  readonly transport?: Transport;
  /** Watches that clients with the same access share; a client without it shares them with itself. */
  readonly watches?: SharedWatches;
  /** Called with verb and kind of every request sent, such as `get pods`, to count them. */
  readonly onRequest?: (what: string) => void;
  /** Called before each attempt at a write, which is not made when it throws. */
  readonly fence?: (signal: AbortSignal) => Promise<void>;
}

export interface ListOptions {
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** `names` leaves everything but the metadata away. */
  readonly only?: 'names';
  /**
   * Whether the API server lists from its watch cache, which may be a moment behind. For kinds of which every agent lists all
   * objects of the cluster.
   */
  readonly isCached?: boolean;
  /** Whether a shared watch keeps large objects packed; followers read them by `wholeObject`. For kinds that may be of any size. */
  readonly isPacked?: boolean;
}

export interface WatchOptions extends ListOptions {
  /** The version of an earlier event, to resume after it instead of listing. */
  readonly from?: string;
  /** Called with each state of the watch, for callers that must know whether it is current. */
  readonly onStream?: (state: StreamState) => void;
  /** Returns the part of an object that the caller needs. A listing holds only one page of whole objects then. */
  readonly trim?: (object: ApiObject) => ApiObject;
}

export interface SharedWatchOptions extends Omit<WatchOptions, 'from' | 'trim'> {
  /** Whether the objects are listed again, also when they are cached, so that nothing is older than the call. */
  readonly isFresh?: boolean;
}

/** Returns the key of a shared watch: the same for clients of one server and account. */
export function sharedWatchKey(access: OrchAccess, collection: Collection, options: ListOptions): string {
  return JSON.stringify([access, collectionPath(collection), options]);
}

/** `merge` is RFC 7396, `json` RFC 6902; `strategic` is the orchestrator's own, which joins lists of its own kinds by key. */
export type Patch =
  | { readonly kind: 'merge' | 'strategic'; readonly body: unknown }
  | { readonly kind: 'json'; readonly body: readonly unknown[] }
  /** Makes the manager the owner of the fields of the body, and removes its other fields; `force` takes over fields of others. */
  | { readonly kind: 'apply'; readonly body: unknown; readonly manager: string; readonly force: boolean };

const PATCH_TYPES: Readonly<Record<Patch['kind'], string>> = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  // JSON is YAML.
  apply: 'application/apply-patch+yaml',
};

/**
 * Page sizes of lists that begin a watch. Parsing a page blocks the event loop: 250 pods take 15 ms. Metadata is smaller. A
 * list from the watch cache may come in one page, whatever is asked for.
 */
const WATCHED_PAGE_SIZE = { all: 250, names: 500 };

/**
 * The longest page that is read: users make objects of more than a megabyte, a few hundred of which no text holds. The next try
 * asks for pages of so many times fewer objects.
 */
const PAGE_BYTES = 64 * 1024 * 1024;
const SMALLER = 8;

/** The time limit of a read of the version for a watch that is open already. */
const VERSION_MS = 30_000;

/** Only the object that was read is deleted. */
export interface Preconditions {
  readonly uid?: string;
  readonly resourceVersion?: string;
}

/**
 * The API of the orchestrator, as little of it as the per-pod path needs. Every request may be repeated: reads by
 * nature, writes because each names the version, the name or the outcome it wants. Connects on first use.
 * Every method throws store/unavailable, store/refused and store/config-invalid.
 */
export class OrchApi implements AsyncDisposable {
  readonly #requester: Requester;
  readonly #sessions: SessionCache;
  readonly #pageSize: number;
  readonly #pageBytes: number;
  readonly #manager: string;
  readonly #ownTransport: Transport | undefined;
  readonly #watches: SharedWatches;
  readonly #access: OrchAccess;
  /**
   * The last read of the version of the API for a watch, and when it began. All kinds share it: where they are in different
   * stores, a watch may list again without need.
   */
  #versionRead: { readonly beganMs: number; readonly version: Promise<number> } | undefined;

  constructor(access: OrchAccess, options: OrchApiOptions = {}) {
    const {
      env = {},
      clock = systemClock,
      random = systemRandom,
      limits,
      pageSize = 500,
      pageBytes = PAGE_BYTES,
      onRequest,
    } = options;
    this.#pageSize = pageSize;
    this.#pageBytes = pageBytes;
    this.#manager = options.manager ?? 'netplug';
    this.#watches = options.watches ?? new SharedWatches();
    this.#access = access;
    const kept = { ...API_LIMITS, ...limits };
    const transport = options.transport ?? new Http1Transport(kept.connections);
    this.#ownTransport = options.transport === undefined ? transport : undefined;
    this.#sessions = new SessionCache(access, { env, now: () => clock.now() });
    this.#requester = new Requester({
      sessions: this.#sessions,
      transport,
      clock,
      random,
      limits: kept,
      onRequest: onRequest ?? ((): void => undefined),
      fence: options.fence,
    });
  }

  /** Returns the origin of the server, and the context of the kubeconfig that names it, as the files say now. */
  async origin(signal: AbortSignal): Promise<{ readonly server: string; readonly context: string | undefined }> {
    const { server, context } = await this.#sessions.current(signal);
    return { server: server.origin, context };
  }

  /** Reports whether the API accepts the credential, also one without rights. @throws store/unavailable */
  async acceptsCredential(signal: AbortSignal): Promise<boolean> {
    return this.#requester.accepts(signal);
  }

  /** Requests a token of a service account. A body of a kind of its own, without a name. */
  async requestToken(
    { namespace, name }: { readonly namespace: string; readonly name: string },
    spec: TokenSpec,
    signal: AbortSignal,
  ): Promise<ApiAnswer<IssuedToken>> {
    const collection = { ...SERVICE_ACCOUNTS, namespace };
    const body = JSON.stringify({ apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec });
    const path = `${objectPath(collection, name)}/token`;
    const what = 'create serviceaccounts/token';
    const answer = await this.#requester.ask({ what, method: 'POST', path, body, isRetried: true }, signal);
    if (answer.outcome !== 'ok') return answer;
    return { outcome: 'ok', value: await this.#insist(answer, readIssuedToken, signal) };
  }

  async get(collection: Collection, name: string, signal: AbortSignal): Promise<ApiAnswer<ApiObject>> {
    return this.#object({ ...call('get', collection), path: objectPath(collection, name) }, signal);
  }

  /** Makes one request, with at most one immediate retry, and returns the response. */
  async probe(collection: Collection, name: string, signal: AbortSignal): Promise<ApiAnswer<ApiObject>> {
    const path = objectPath(collection, name);
    return this.#object({ ...call('get', collection), path, isRetried: false }, signal);
  }

  /** Everything there is at one moment, fetched a page at a time so that no answer grows without bound. */
  async list(collection: Collection, options: ListOptions, signal: AbortSignal): Promise<readonly ApiObject[]> {
    return (await this.#listing(collection, options, signal)).items;
  }

  /**
   * Everything there is, unless `from` can be resumed, and then every change, until the signal ends it. When the API has forgotten where the watch
   * was, everything comes again. Throws like any other call when the API does not serve for long.
   */
  async *watch(collection: Collection, options: WatchOptions, signal: AbortSignal): AsyncGenerator<WatchEvent> {
    const { onStream = (): void => undefined, from, only, isCached = false, trim = whole, ...selectors } = options;
    const headers = only === undefined ? {} : { headers: { accept: namesOnly('PartialObjectMetadata') } };
    const path = `${collectionPath(collection)}?${selectorsOf(selectors).toString()}`;
    const watchFlow = collection.plural;
    let objects = 0;
    let last = from;
    for (let version = from; !signal.aborted; version = undefined) {
      const isListed = version === undefined;
      if (version === undefined) {
        const beginning = { ...options, trim, watchFlow, pageSize: WATCHED_PAGE_SIZE[only ?? 'all'] };
        ({ version, objects } = yield* this.#listed(last, { collection, ...beginning, isCached }, signal));
        // What passes events on keeps the last one until the next comes, on the API after a minute: not the list.
        if (!signal.aborted) yield { kind: 'bookmark', version };
      }
      const isBehind = async (seen: string, sinceMs: number, over: AbortSignal): Promise<boolean> => {
        const query = selectorsOf(selectors);
        query.set('limit', '1');
        const list = { ...call('list', collection), path: `${collectionPath(collection)}?${query.toString()}` };
        return untilAborted(this.#versionSince(sinceMs, list), over).then(
          (current) => current < Number(seen),
          () => false,
        );
      };
      const begin = { version, isListed, watchFlow, onStream, isBehind };
      last = version;
      const request = { ...call('watch', collection), ...headers, path, ...begin };
      for await (const event of followChanges(this.#requester, request, signal)) {
        last = event.version;
        yield event;
      }
      if (!signal.aborted) await this.#requester.rest('forgotten', { objects, signal });
    }
  }

  /** Like `watch`, but all followers of the same objects share one list and one watch. No change is repeated. */
  sharedWatch(
    collection: Collection,
    { onStream = (): void => undefined, isFresh = false, ...options }: SharedWatchOptions,
    signal: AbortSignal,
  ): AsyncGenerator<SharedEvent> {
    const trim = (object: ApiObject): ApiObject => {
      const trimmed = trimmedObject(collection, object);
      return options.isPacked === true ? packedObject(trimmed) : trimmed;
    };
    const start: StartWatch = ({ from, isFresh: isNew, onStream: note }, over) =>
      this.watch(
        collection,
        {
          ...options,
          ...(from === undefined ? {} : { from }),
          ...(isNew ? { isCached: false } : {}),
          onStream: note,
          trim,
        },
        over,
      );
    const key = sharedWatchKey(this.#access, collection, options);
    return this.#watches.follow(key, { start, trim, onStream, isFresh }, signal);
  }

  /** Returns for how many milliseconds the API has neither answered a request nor sent data of a watch. */
  silentMs(): number {
    return this.#requester.silentMs();
  }

  /** Yields everything there is. A generator of its own, which ends: one that goes on would keep the objects. */
  async *#listed(
    last: string | undefined,
    listed: Listed & { readonly collection: Collection },
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent, { readonly version: string; readonly objects: number }> {
    const { items, version } = await this.#listingAfter(last, listed, signal);
    yield { kind: 'all', objects: items, version };
    return { version, objects: items.length };
  }

  /** Lists what the watch cache has, unless that is older than a version that was seen: another API server may be behind. */
  async #listingAfter(
    last: string | undefined,
    { collection, isCached, ...options }: Listed & { readonly collection: Collection },
    signal: AbortSignal,
  ): Promise<Listing> {
    if (isCached !== true) return this.#listing(collection, options, signal);
    const listing = await this.#listing(collection, { ...options, isCached }, signal);
    const isBehind = last !== undefined && Number(listing.version) < Number(last);
    return isBehind ? this.#listing(collection, options, signal) : listing;
  }

  async #listing(collection: Collection, options: Listed, signal: AbortSignal): Promise<Listing> {
    let size = Math.min(this.#pageSize, options.pageSize ?? this.#pageSize);
    let { isCached } = options;
    for (let attempt = 1; ;) {
      // The API forgets where a long listing was after some minutes; the last try takes all in one answer.
      const limit = attempt < 3 ? size : undefined;
      const mostBytes = limit === undefined || limit === 1 ? Infinity : this.#pageBytes;
      const all = await this.#listOnce(
        collection,
        { ...options, ...(isCached === undefined ? {} : { isCached }), limit, mostBytes },
        signal,
      );
      if (all === 'gone') attempt += 1;
      else if (all !== 'too large') return all;
      // From the watch cache, the API may send everything as one page.
      else if (isCached === true) isCached = false;
      else size = Math.max(1, Math.floor(size / SMALLER));
    }
  }

  async create(
    {
      collection,
      object,
      mode,
    }: { readonly collection: Collection; readonly object: unknown; readonly mode?: Mode | undefined },
    signal: AbortSignal,
  ): Promise<ApiAnswer<ApiObject>> {
    const path = `${collectionPath(collection)}${writeQuery({ mode, manager: this.#manager })}`;
    return this.#object({ ...call('create', collection), method: 'POST', path, body: JSON.stringify(object) }, signal);
  }

  /** Puts the object in the place of the one with its name and, when it carries one, its resourceVersion. */
  async replace(
    {
      collection,
      object,
      mode,
    }: {
      readonly collection: Collection;
      readonly object: { readonly metadata: { readonly name: string } };
      readonly mode?: Mode | undefined;
    },
    signal: AbortSignal,
  ): Promise<ApiAnswer<ApiObject>> {
    const path = `${objectPath(collection, object.metadata.name)}${writeQuery({ mode, manager: this.#manager })}`;
    return this.#object({ ...call('update', collection), method: 'PUT', path, body: JSON.stringify(object) }, signal);
  }

  async patch(
    which: {
      readonly collection: Collection;
      readonly name: string;
      readonly subresource?: 'status';
      readonly mode?: Mode | undefined;
    },
    patch: Patch,
    signal: AbortSignal,
  ): Promise<ApiAnswer<ApiObject>> {
    const { collection, name, subresource, mode } = which;
    const { manager, force } = patch.kind === 'apply' ? patch : { manager: this.#manager, force: false };
    const path = `${objectPath(collection, name)}${subresource === undefined ? '' : `/${subresource}`}`;
    return this.#object(
      {
        ...call('patch', collection),
        method: 'PATCH',
        path: `${path}${writeQuery({ mode, manager, force })}`,
        body: JSON.stringify(patch.body),
        headers: { 'content-type': PATCH_TYPES[patch.kind] },
      },
      signal,
    );
  }

  async delete(
    which: {
      readonly collection: Collection;
      readonly name: string;
      readonly preconditions: Preconditions;
      readonly mode?: Mode | undefined;
      /** Time for a pod to end; the time in its spec unless given. */
      readonly graceSeconds?: number | undefined;
    },
    signal: AbortSignal,
  ): Promise<ApiAnswer<undefined>> {
    const { collection, name, preconditions, mode, graceSeconds: gracePeriodSeconds } = which;
    const dryRun = mode === 'dry-run' ? ['All'] : [];
    const body = JSON.stringify({ kind: 'DeleteOptions', apiVersion: 'v1', preconditions, dryRun, gracePeriodSeconds });
    const path = objectPath(collection, name);
    const answer = await this.#requester.ask({ ...call('delete', collection), method: 'DELETE', path, body }, signal);
    return answer.outcome === 'ok' ? { outcome: 'ok', value: undefined } : answer;
  }

  /** Creates a review, which has no name and is not stored, and returns its status. */
  async review(
    collection: Collection,
    object: object,
    signal: AbortSignal,
  ): Promise<Readonly<Record<string, unknown>>> {
    const request = { ...call('create', collection), method: 'POST', path: collectionPath(collection) };
    const answer = await this.#requester.ask({ ...request, body: JSON.stringify(object) }, signal);
    const status = (raw: unknown): Readonly<Record<string, unknown>> | undefined =>
      isRecord(raw) && isRecord(raw['status']) ? raw['status'] : undefined;
    return this.#insist(answer, status, signal);
  }

  /** Returns the version of the server, such as `v1.37.2`. */
  async serverVersion(signal: AbortSignal): Promise<string> {
    const request = { what: 'get version', method: 'GET', path: '/version', body: undefined, isRetried: true } as const;
    const answer = await this.#requester.ask(request, signal);
    const version = (raw: unknown): string | undefined =>
      isRecord(raw) && typeof raw['gitVersion'] === 'string' ? raw['gitVersion'] : undefined;
    return this.#insist(answer, version, signal);
  }

  /** Returns the kinds that the server serves, as `group/plural`. */
  async servedKinds(signal: AbortSignal): Promise<readonly string[]> {
    const ask = async (request: ApiRequest): Promise<readonly string[]> =>
      this.#insist(await this.#requester.ask(request, signal), readServedKinds, signal);
    return (await Promise.all(DISCOVERY.map(ask))).flat();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ownTransport?.close();
    await Promise.resolve();
  }

  /** `gone` when the API has forgotten where the listing was, `too large` when a page has more than so many bytes. */
  async #listOnce(
    collection: Collection,
    {
      limit,
      mostBytes,
      watchFlow,
      trim = whole,
      ...options
    }: Listed & { readonly limit: number | undefined; readonly mostBytes: number },
    signal: AbortSignal,
  ): Promise<Listing | 'gone' | 'too large'> {
    const items: ApiObject[] = [];
    let version: string;
    let next: string | undefined;
    do {
      const query = selectorsOf(options);
      if (limit !== undefined) query.set('limit', String(limit));
      if (next !== undefined) query.set('continue', next);
      else if (options.isCached === true) query.set('resourceVersion', '0');
      const accept = namesOnly('PartialObjectMetadataList');
      const answer = await this.#requester.ask(
        {
          ...call('list', collection),
          path: `${collectionPath(collection)}?${query.toString()}`,
          mostBytes,
          ...(options.only === undefined ? {} : { headers: { accept } }),
          ...(watchFlow === undefined ? {} : { watchFlow }),
        },
        signal,
      );
      if (answer.outcome === 'gone' || answer.outcome === 'too large') return answer.outcome;
      const page: Page = await this.#insist(answer, readPage, signal);
      items.push(...page.items.map(trim));
      version = page.version;
      next = page.next;
    } while (next !== undefined);
    return { items, version };
  }

  /**
   * Returns the version of the API by a read that began after the given time: the lowest number when it failed, so that the
   * watch lists again, and the highest when the account may not read.
   */
  async #versionSince(sinceMs: number, request: ApiRequest): Promise<number> {
    if (this.#versionRead === undefined || this.#versionRead.beganMs < sinceMs)
      this.#versionRead = { beganMs: this.#requester.monotonicMs(), version: this.#readVersion(request) };
    return this.#versionRead.version;
  }

  async #readVersion(request: ApiRequest): Promise<number> {
    using limit = timeLimit(VERSION_MS);
    try {
      const headers = { accept: namesOnly('PartialObjectMetadataList') };
      const answer = await this.#requester.ask({ ...request, headers }, limit.signal);
      return answer.outcome === 'ok' ? Number(readPage(answer.value)?.version) : Number.NEGATIVE_INFINITY;
    } catch (cause) {
      return isNetplugError(cause, 'store/refused') ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;
    }
  }

  async #object(request: ApiRequest, signal: AbortSignal): Promise<ApiAnswer<ApiObject>> {
    const answer = await this.#requester.ask(request, signal);
    if (answer.outcome !== 'ok') return answer;
    return { outcome: 'ok', value: await this.#insist(answer, readObject, signal) };
  }

  async #insist<T>(answer: ApiAnswer<unknown>, read: (raw: unknown) => T | undefined, signal: AbortSignal): Promise<T> {
    const value = answer.outcome === 'ok' ? read(answer.value) : undefined;
    if (value !== undefined) return value;
    const reason = answer.outcome === 'ok' ? 'the answer has an unknown format' : answer.message;
    throw await this.#requester.unusable(reason, signal);
  }
}

type Listed = ListOptions & Pick<WatchOptions, 'trim'> & Pick<ApiRequest, 'watchFlow'> & { readonly pageSize?: number };

interface Listing {
  readonly items: readonly ApiObject[];
  /** When it was true. */
  readonly version: string;
}

function whole(object: ApiObject): ApiObject {
  return object;
}

function writeQuery({
  mode,
  manager,
  force = false,
}: {
  readonly mode: Mode | undefined;
  readonly manager: string;
  readonly force?: boolean;
}): string {
  const query = new URLSearchParams({
    fieldManager: manager,
    ...(mode === 'dry-run' ? { dryRun: 'All' } : {}),
    ...(force ? { force: 'true' } : {}),
  });
  return `?${query.toString()}`;
}

function selectorsOf({ labelSelector, fieldSelector }: ListOptions): URLSearchParams {
  return new URLSearchParams({
    ...(labelSelector === undefined ? {} : { labelSelector }),
    ...(fieldSelector === undefined ? {} : { fieldSelector }),
  });
}

function namesOnly(as: string): string {
  return `application/json;as=${as};g=meta.k8s.io;v=v1`;
}

function call(verb: string, { plural }: Collection): ApiRequest {
  return { what: `${verb} ${plural}`, method: 'GET', path: '', body: undefined, isRetried: true };
}
