import { NetplugError, reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { BackOff, type RetryPorts } from '../../base/back-off.ts';
import type { Store } from '../../datastore/store.ts';
import type { DatastoreId } from './datastore-id.ts';
import { Notifier } from './notifier.ts';
import type { ResidentNode } from './resident-node.ts';

const BACK_OFF = { firstMs: 50, maxMs: 2000 };
const CALL_WAITS_MS = 1000;
/** Without a reason, one with a stack would be made each time. */
const CLOSED = new Error('the datastore is no longer used');

export interface NamedDatastorePorts extends RetryPorts {
  readonly log: Log;
  readonly identify: (signal: AbortSignal) => Promise<DatastoreId>;
  /** Returns the resident node of the datastore, which other configurations may have opened already. */
  readonly join: (datastore: DatastoreId, inner: Store) => ResidentNode;
}

/** One configuration of a datastore: identifies the datastore that it reaches, and provides its resident node. */
export class NamedDatastore {
  readonly inner: Store;
  readonly #ports: NamedDatastorePorts;
  readonly #stop = new AbortController();
  readonly #identified: Notifier;
  #node: ResidentNode | undefined;
  #problem: unknown = new NetplugError('store/unavailable', 'Cannot use the datastore yet: it is being identified', {
    hint: 'Try again in a moment',
  });
  #isUntried = true;
  readonly #identifying: Promise<void>;

  constructor(inner: Store, ports: NamedDatastorePorts) {
    this.inner = inner;
    this.#ports = ports;
    this.#identified = new Notifier(ports.clock);
    this.#identifying = this.#identify();
  }

  /** Undefined until the datastore has answered. */
  get node(): ResidentNode | undefined {
    return this.#node;
  }

  /** Returns why there is no resident node yet. */
  get problem(): unknown {
    return this.#node === undefined ? this.#problem : undefined;
  }

  /** Returns the resident node. @throws the reason why the datastore cannot be identified; the signal's reason */
  async resolve(signal: AbortSignal): Promise<ResidentNode> {
    signal.throwIfAborted();
    if (this.#node === undefined) await this.#identified.next(CALL_WAITS_MS);
    signal.throwIfAborted();
    if (this.#node === undefined) throw this.#problem;
    return this.#node;
  }

  /** Resolves after the first attempt to identify the datastore, or when the signal aborts. */
  async opened(signal: AbortSignal): Promise<void> {
    while (this.#node === undefined && this.#isUntried && !signal.aborted) await this.#identified.next(100);
    await this.#node?.opened(signal);
  }

  /** Resolves when the datastore is identified, or the signal aborts. */
  async identified(signal: AbortSignal): Promise<void> {
    while (this.#node === undefined && !signal.aborted) await this.#identified.next(CALL_WAITS_MS);
  }

  /** Stops the identification. The caller ends the resident node, which configurations share. */
  async end(): Promise<void> {
    this.#stop.abort(CLOSED);
    await this.#identifying;
    if (this.#node?.inner !== this.inner) await this.inner[Symbol.asyncDispose]();
  }

  async #identify(): Promise<void> {
    const { log, identify, join } = this.#ports;
    const { signal } = this.#stop;
    const backOff = new BackOff(this.#ports, BACK_OFF);
    while (!signal.aborted) {
      try {
        this.#node = join(await identify(signal), this.inner);
        this.#identified.notify();
        return;
      } catch (cause) {
        if (signal.aborted) return;
        this.#problem = cause;
        this.#isUntried = false;
        if (backOff.fail(cause) === 1) log.warning('datastore cannot be identified', { reason: reasonOf(cause) });
      }
      this.#identified.notify();
      await backOff.wait(signal);
    }
  }
}
