import { type Clock, repeat } from '../base/clock.ts';
import { type ApiObject, objectKey } from './objects.ts';
import type { Relay, RelayedEvent, RelayListener, SharedEvent } from './shared-watches.ts';

/** Interval at which a process that relays its watch sends something while the watch is open. */
export const RELAY_BEAT_MS = 500;
/** Without a message for that long, that process hangs, or its watch is broken. The default of a relay. */
const SILENCE_MS = 4 * RELAY_BEAT_MS;

/** Up to which version objects are current, or that they may be outdated and are not given up yet: none begins with them then. */
export type RelayState = { readonly current: string } | 'doubtful';

/** The objects that another process of the node watches and sends, so that this one needs no watch of them. */
export class WatchRelay implements Relay, Disposable {
  readonly #clock: Clock;
  readonly #silenceMs: number;
  readonly #objects = new Map<string, ApiObject>();
  /** Undefined until all objects were received. */
  #version: string | undefined;
  #isOpen = false;
  #isDoubtful = false;
  /** Set while the objects are current; stops the check whether they still are. */
  #currency: AbortController | undefined;
  #receivedAtMs = Number.NEGATIVE_INFINITY;
  #listener: RelayListener | undefined;

  constructor(clock: Clock, silenceMs = SILENCE_MS) {
    this.#clock = clock;
    this.#silenceMs = silenceMs;
  }

  get current(): Relay['current'] {
    const version = this.#version;
    if (this.#currency === undefined || !this.#isOpen || this.#isDoubtful || version === undefined) return undefined;
    return { objects: [...this.#objects.values()], version };
  }

  listen(listener: RelayListener | undefined): void {
    this.#listener = listener;
  }

  receive(event: RelayedEvent): void {
    // What a process sent that has ended may come late.
    if (event.kind === 'changes' && this.#version === undefined) return;
    this.#receivedAtMs = this.#clock.monotonic();
    this.#isDoubtful = false;
    if (event.kind === 'stream') this.#isOpen = event.state === 'opened';
    else this.#apply(event);
    if (this.#isOpen && this.#version !== undefined) this.#begin();
    if (this.#currency !== undefined) this.#listener?.onEvent(event);
  }

  /** The other process says how its objects are, again and again. */
  receiveState(state: RelayState): void {
    if (state !== 'doubtful') {
      this.receive({ kind: 'changes', changes: [], version: state.current });
      return;
    }
    this.#receivedAtMs = this.#clock.monotonic();
    this.#isDoubtful = true;
  }

  /** The other process has ended, or has given the objects up. */
  disconnect(): void {
    this.#objects.clear();
    this.#version = undefined;
    this.#isOpen = false;
    this.#isDoubtful = false;
    this.#lose();
  }

  [Symbol.dispose](): void {
    this.#currency?.abort();
  }

  #apply(event: SharedEvent): void {
    this.#version = event.version;
    if (event.kind === 'all') {
      this.#objects.clear();
      for (const object of event.objects) this.#objects.set(objectKey(object), object);
      return;
    }
    for (const { before, after } of event.changes) {
      if (after !== undefined) this.#objects.set(objectKey(after), after);
      else if (before !== undefined) this.#objects.delete(objectKey(before));
    }
  }

  #check(): void {
    if (this.#clock.monotonic() - this.#receivedAtMs >= this.#silenceMs) this.#lose();
  }

  #begin(): void {
    if (this.#currency !== undefined) return;
    this.#currency = new AbortController();
    repeat(() => this.#check(), RELAY_BEAT_MS, this.#currency.signal);
  }

  #lose(): void {
    if (this.#currency === undefined) return;
    this.#currency.abort();
    this.#currency = undefined;
    this.#listener?.onLost();
  }
}
