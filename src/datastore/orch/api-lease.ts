import * as v from 'valibot';
import type { Clock } from '../../base/clock.ts';
import { NetplugError } from '../../base/errors.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { type Collection, LEASES } from '../../kube/paths.ts';
import { notLeader } from '../not-leader.ts';
import type { LeaseOptions, NamedLease } from '../../runtime/leader-lease.ts';

export interface ApiLeaseOptions extends LeaseOptions {
  /** The object only shows what another lease has decided: it is taken from its holder at once. */
  readonly isOnlyShown?: boolean;
}

/** Writes by other processes that are tolerated during one `hold`. */
const TRIES = 4;

const spec = v.looseObject({
  holderIdentity: v.nullish(v.string(), ''),
  leaseDurationSeconds: v.nullish(v.number(), 0),
  leaseTransitions: v.nullish(v.number(), 0),
  acquireTime: v.nullish(v.string()),
});
type LeaseSpec = v.InferOutput<typeof spec>;

/**
 * A Lease object. Its times are for display: another candidate acquires it when its version has not changed for the
 * lease's duration on that candidate's own monotonic clock.
 */
export class ApiLease implements NamedLease {
  readonly durationMs: number;
  readonly #api: OrchApi;
  readonly #clock: Clock;
  readonly #collection: Collection;
  readonly #options: ApiLeaseOptions;
  #wasHeld = false;
  /** When the last successful `hold` began, on the monotonic clock. */
  #heldFromMs = Number.NEGATIVE_INFINITY;
  /** Number of times that the lease had changed hands when this candidate acquired it. */
  #term: number | undefined;
  /** The object as it was last read or written. */
  #known: ApiObject | undefined;
  /** The last version of another holder, and when it was first observed. */
  #observed: { readonly version: string | undefined; readonly atMs: number } = { version: undefined, atMs: 0 };

  constructor(api: OrchApi, clock: Clock, options: ApiLeaseOptions) {
    this.#api = api;
    this.#clock = clock;
    this.#options = options;
    this.#collection = { ...LEASES, namespace: options.namespace };
    this.durationMs = options.durationMs;
  }

  /**
   * Expects that this candidate has held the lease without interruption, and asks the API. @throws store/not-leader, store/*
   */
  async confirm(signal: AbortSignal): Promise<void> {
    const isFresh = (): boolean => this.#wasHeld && this.#clock.monotonic() < this.#heldFromMs + this.durationMs;
    if (!isFresh()) throw notLeader();
    const { holderIdentity, leaseTransitions } = specOf(await this.#get(signal));
    // The process may have been paused while it waited for the answer.
    if (!isFresh() || holderIdentity !== this.#options.holder || leaseTransitions !== this.#term) throw notLeader();
  }

  async findHolder(signal: AbortSignal): Promise<string | undefined> {
    const object = await this.#get(signal);
    return object === undefined ? undefined : (specOf(object).holderIdentity ?? '');
  }

  async hold(signal: AbortSignal): Promise<boolean> {
    const startMs = this.#clock.monotonic();
    for (let attempt = 0; attempt < TRIES; attempt += 1) {
      this.#known ??= await this.#get(signal);
      if (!this.#mayHold(this.#known)) {
        this.#wasHeld = false;
        this.#known = undefined;
        return false;
      }
      if (await this.#write(this.#known, this.#options.holder, signal)) {
        this.#heldFromMs = startMs;
        this.#term = specOf(this.#known).leaseTransitions;
        return (this.#wasHeld = true);
      }
    }
    return false;
  }

  async release(signal: AbortSignal): Promise<void> {
    if (!this.#wasHeld) return;
    for (let attempt = 0; attempt < TRIES; attempt += 1) {
      this.#known ??= await this.#get(signal);
      if (this.#known === undefined || specOf(this.#known).holderIdentity !== this.#options.holder) break;
      if (await this.#write(this.#known, '', signal)) break;
    }
    this.#wasHeld = false;
    this.#known = undefined;
  }

  async released(signal: AbortSignal): Promise<void> {
    const fieldSelector = `metadata.name=${this.#options.name}`;
    for await (const event of this.#api.watch(this.#collection, { fieldSelector }, signal)) {
      if (event.kind === 'deleted') return;
      if (event.kind === 'bookmark') continue;
      const objects = event.kind === 'all' ? event.objects : [event.object];
      if (objects.every((object) => specOf(object).holderIdentity === '')) return;
    }
  }

  /** Reports whether the lease is this candidate's to acquire or renew. */
  #mayHold(object: ApiObject | undefined): boolean {
    const { holderIdentity, leaseDurationSeconds } = specOf(object);
    if (holderIdentity === this.#options.holder || this.#options.isOnlyShown === true) return true;
    if (this.#wasHeld) return false;
    if (holderIdentity === '') return true;
    const version = object?.metadata.resourceVersion;
    const now = this.#clock.monotonic();
    if (this.#observed.version !== version) this.#observed = { version, atMs: now };
    const durationMs = Math.max(this.durationMs, leaseDurationSeconds * 1000);
    return now - this.#observed.atMs >= durationMs;
  }

  async #get(signal: AbortSignal): Promise<ApiObject | undefined> {
    const answer = await this.#api.get(this.#collection, this.#options.name, signal);
    return answer.outcome === 'ok' ? answer.value : undefined;
  }

  /** Writes the holder unless the object has changed since it was known; reports whether it did. */
  async #write(known: ApiObject | undefined, holder: string, signal: AbortSignal): Promise<boolean> {
    const { name, namespace } = this.#options;
    const object = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      ...known,
      metadata: known?.metadata ?? { name, namespace },
      spec: this.#specFor(holder, specOf(known)),
    };
    const request = { collection: this.#collection, object };
    const answer =
      known === undefined ? await this.#api.create(request, signal) : await this.#api.replace(request, signal);
    this.#known = answer.outcome === 'ok' ? answer.value : undefined;
    const isRaced = answer.outcome === 'conflict' || answer.outcome === (known === undefined ? 'exists' : 'not-found');
    if (answer.outcome === 'ok' || isRaced) return answer.outcome === 'ok';
    throw new NetplugError('store/refused', `Cannot write Lease "${namespace}/${name}": ${answer.message}`, {
      hint: 'Create the namespace of the Lease, and check the rights of the account',
    });
  }

  #specFor(holder: string, before: LeaseSpec): LeaseSpec {
    // As Kubernetes writes them, with microseconds.
    const now = new Date(this.#clock.now()).toISOString().replace('Z', '000Z');
    const isNew = before.holderIdentity !== holder && holder !== '';
    return {
      ...before,
      holderIdentity: holder,
      leaseDurationSeconds: Math.ceil(this.durationMs / 1000),
      leaseTransitions: before.leaseTransitions + (isNew ? 1 : 0),
      acquireTime: isNew ? now : (before.acquireTime ?? now),
      renewTime: now,
    };
  }
}

function specOf(object: ApiObject | undefined): LeaseSpec {
  return v.parse(spec, object?.['spec'] ?? {});
}
