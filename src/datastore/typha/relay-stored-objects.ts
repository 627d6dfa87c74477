import { keepRunning, type RetryPorts } from '../../base/back-off.ts';
import { repeat } from '../../base/clock.ts';
import { ERRORS } from '../../base/error-codes.ts';
import { isNetplugError } from '../../base/errors.ts';
import type { FollowEvent } from '../follow.ts';
import type { FollowTopic, TopicQuery } from './topics.ts';
import { type ApiObject, readObject } from '../../kube/objects.ts';
import type { ObjectChange, RelayedEvent } from '../../kube/shared-watches.ts';
import { RELAY_BEAT_MS, type RelayState } from '../../kube/watch-relay.ts';

/**
 * Time, at least and at most, after which objects are given up while servers are there and cannot follow the API: the node cannot
 * either then, most likely. When the API is back, a fleet of watches must not meet it.
 */
const PATIENCE_MS = { least: 60_000, most: 120_000 };
/** Servers say every 3 s how far they are. */
const DOUBTFUL_MS = 7000;

export interface StoredRelayPorts extends RetryPorts {
  /** Follows one topic; the version of an event is that of the API where it is known. */
  readonly follow: (topic: TopicQuery, signal: AbortSignal) => AsyncIterable<FollowEvent>;
  readonly hasServer: () => boolean;
  readonly send: (of: FollowTopic, event: RelayedEvent) => void;
  /** Says of each topic up to which version it is current, or that it may be outdated and is not given up yet. */
  readonly sendState: (states: Readonly<Record<FollowTopic, RelayState>>) => void;
  /** The objects of the topic are given up: the other process watches them itself. */
  readonly sendLost: (of: FollowTopic) => void;
}

/**
 * Sends the objects that calls need to the process that serves calls, as netplug-typha has them, so that it watches none of them.
 * Runs until the signal aborts.
 */
export async function relayStoredObjects(
  ports: StoredRelayPorts,
  topics: readonly TopicQuery[],
  signal: AbortSignal,
): Promise<void> {
  const relays = topics.map((topic) => new StoredRelay(ports, topic));
  repeat(
    () => {
      const states = relays.flatMap((relay) => relay.state());
      if (states.length > 0) ports.sendState(Object.fromEntries(states));
    },
    RELAY_BEAT_MS,
    signal,
  );
  await Promise.all(relays.map(async (relay) => relay.run(signal)));
}

class StoredRelay {
  readonly #ports: StoredRelayPorts;
  readonly #topic: TopicQuery;
  readonly #objects = new Map<string, ApiObject>();
  readonly #patienceMs: number;
  /** The version up to which nothing is missing; undefined until one is known. */
  #version: string | undefined;
  /** Whether the other process takes the objects for current. */
  #isOpen = false;
  /** When something of the topic came last. */
  #heardMs = 0;
  /** Since when the topic fails; undefined while it does not. */
  #failedMs: number | undefined;

  constructor(ports: StoredRelayPorts, topic: TopicQuery) {
    this.#ports = ports;
    this.#topic = topic;
    const { least, most } = PATIENCE_MS;
    this.#patienceMs = least + ports.random.int(most - least);
  }

  /** Returns the topic and its state; nothing once it is given up. */
  state(): readonly (readonly [FollowTopic, RelayState])[] {
    const failedMs = this.#failedMs;
    if (failedMs !== undefined && this.#ports.clock.monotonic() - failedMs >= this.#patienceMs) this.#close();
    if (!this.#isOpen || this.#version === undefined) return [];
    return [[this.#topic.topic, this.#isDoubtful ? 'doubtful' : { current: this.#version }]];
  }

  get #isDoubtful(): boolean {
    return this.#failedMs !== undefined || this.#ports.clock.monotonic() - this.#heardMs > DOUBTFUL_MS;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { follow, hasServer, clock } = this.#ports;
    await keepRunning(
      this.#ports,
      {
        work: async () => {
          for await (const event of follow(this.#topic, signal)) this.#take(event);
        },
        // The followers of policies, which have the same connection, log failures.
        onFailure: (cause) => {
          // What all servers refuse is no outage of the API.
          const isOutage = !isNetplugError(cause) || ERRORS[cause.code].retry;
          this.#failedMs ??= clock.monotonic();
          if (!isOutage || !hasServer()) this.#close();
        },
      },
      signal,
    );
  }

  #take(event: FollowEvent): void {
    const { send, sendState, clock } = this.#ports;
    this.#heardMs = clock.monotonic();
    const { topic } = this.#topic;
    const changes = event.kind === 'bookmark' ? [] : this.#apply(event);
    // A snapshot may be what was held before the failure, and a topic that fails has no bookmarks.
    if (event.kind !== 'snapshot') this.#failedMs = undefined;
    this.#version = versionOf(event) ?? this.#version;
    const version = this.#version;
    if (version === undefined) return;
    if (!this.#isOpen) {
      if (this.#failedMs !== undefined) return;
      this.#isOpen = true;
      send(topic, { kind: 'stream', state: 'opened' });
      send(topic, { kind: 'all', objects: [...this.#objects.values()], version });
    } else if (changes.length > 0) send(topic, { kind: 'changes', changes, version });
    if (this.#failedMs !== undefined) sendState({ [topic]: 'doubtful' });
  }

  #close(): void {
    if (this.#isOpen) this.#ports.sendLost(this.#topic.topic);
    this.#isOpen = false;
    this.#version = undefined;
  }

  #apply({ kind, records }: Exclude<FollowEvent, { kind: 'bookmark' }>): readonly ObjectChange[] {
    const listed = new Set(records.map(({ key }) => key));
    const gone = kind === 'snapshot' ? [...this.#objects.keys()].filter((key) => !listed.has(key)) : [];
    const put = ({ key, stored }: (typeof records)[number]): ObjectChange => this.#put(key, readObject(stored));
    return [...gone.map((key) => this.#put(key, undefined)), ...records.map(put)].filter(
      ({ before, after }) => before !== undefined || after !== undefined,
    );
  }

  #put(key: string, after: ApiObject | undefined): ObjectChange {
    const before = this.#objects.get(key);
    if (after === undefined) this.#objects.delete(key);
    else this.#objects.set(key, after);
    return { before, after };
  }
}

function versionOf({ version }: FollowEvent): string | undefined {
  return /^\d+$/.test(version) ? version : undefined;
}
