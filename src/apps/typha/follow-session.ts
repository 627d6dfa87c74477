import { NetplugError } from '../../base/errors.ts';
import { errorData } from '../../base/error-data.ts';
import { followFrame, readClientFrame } from '../../datastore/typha/follow-frames.ts';
import type { FollowTopic } from '../../datastore/typha/topics.ts';
import type { AdmittedClient } from '../../stream/admit-client.ts';
import { STREAM_FRAME } from '../../stream/handshake.ts';
import type { StreamPeer } from '../../stream/peer.ts';
import { protocolError, type StreamFrame } from '../../stream/stream-frames.ts';
import { Allowance } from './allowance.ts';
import type { ServedTopic } from './served-topic.ts';
import { TopicCursor, type TopicFeed } from './topic-feed.ts';

/** How long a client that has seen a newer state than this server waits for it, before it is told so. */
const BEHIND_MS = 3000;
/** Topics that a client may begin in a minute: each may bring a snapshot. */
const MOST_BEGINS = 200;
/** Frames that a client may send in a minute. It begins and ends topics, and acknowledges once a second. */
const MOST_FRAMES = 1000;

interface Followed {
  readonly served: ServedTopic;
  readonly feed: TopicFeed<Buffer>;
  cursor: TopicCursor<Buffer>;
  /** The version that this server must have before it sends anything; undefined when it has. */
  neededVersion: number | undefined;
  readonly beganMs: number;
  /** Whether the client was told that the topic has failed, or that this server is behind. */
  isToldFailed: boolean;
  isToldBehind: boolean;
}

/** What one client follows, and what it has been sent. */
export class FollowSession {
  readonly client: AdmittedClient;
  readonly peer: StreamPeer;
  /** Whether the node of the client has existed: a new one connects before its agent has published it. */
  isNodeKnown = false;
  /** Bytes of topics that it was sent. */
  sentBytes = 0;
  /** What the client was last told of the servers. */
  toldServers: Buffer | undefined;
  readonly #topics: ReadonlyMap<FollowTopic, ServedTopic>;
  readonly #monotonic: () => number;
  readonly #followed = new Map<FollowTopic, Followed>();
  readonly #begins = new Allowance(MOST_BEGINS);
  readonly #frames = new Allowance(MOST_FRAMES);
  /** Positions that the client has applied. */
  readonly #acknowledged = new Map<FollowTopic, number>();

  constructor(
    client: AdmittedClient,
    peer: StreamPeer,
    { topics, monotonic }: { readonly topics: ReadonlyMap<FollowTopic, ServedTopic>; readonly monotonic: () => number },
  ) {
    this.client = client;
    this.peer = peer;
    this.#topics = topics;
    this.#monotonic = monotonic;
  }

  /** Whether something that the client has asked for is not complete. */
  get isLoading(): boolean {
    for (const { cursor } of this.#followed.values()) if (cursor.completeAt !== undefined) return true;
    return false;
  }

  /** Reports whether the client has been sent everything of the topic that was flushed. */
  hasSent(topic: FollowTopic): boolean {
    const followed = this.#followed.get(topic);
    if (followed === undefined) return false;
    return followed.cursor.completeAt === undefined && followed.cursor.position >= followed.feed.flushed;
  }

  /** Number of changes that the client has not applied, of all its topics. */
  get behind(): number {
    return [...this.#followed].reduce(
      (sum, [topic, { feed }]) => sum + feed.flushed - (this.#acknowledged.get(topic) ?? 0),
      0,
    );
  }

  /** @throws stream/protocol for what no client sends */
  receive(frame: StreamFrame): void {
    if (!this.#frames.take(this.#monotonic())) throw protocolError('a client sends frames again and again');
    if (frame.type === STREAM_FRAME.alive) return;
    const message = readClientFrame(frame);
    switch (message.kind) {
      case 'begin':
        this.#begin(message.topic, message.changed);
        return;
      case 'end':
        this.#followed.delete(message.topic);
        this.#acknowledged.delete(message.topic);
        return;
      case 'ack':
        for (const [topic, position] of Object.entries(message.positions))
          if (this.#followed.has(topic)) this.#acknowledged.set(topic, position);
    }
  }

  /** Sends what the client lacks, in one write, as far as it takes it; of these topics alone if they are given. */
  pump(of: Iterable<FollowTopic> = this.#followed.keys()): void {
    if (this.peer.isFull) return;
    this.peer.together(() => {
      for (const topic of of) {
        const followed = this.#followed.get(topic);
        if (followed === undefined || !this.#mayFollow(followed)) continue;
        for (;;) {
          if (this.peer.isFull) return;
          const frame = followed.feed.next(followed.cursor);
          if (frame === undefined) break;
          this.peer.send(frame);
          this.sentBytes += frame.length;
        }
      }
    });
  }

  #begin(topic: FollowTopic, changed: number | undefined): void {
    if (!this.#begins.take(this.#monotonic())) throw protocolError('a client begins topics again and again');
    const served = this.#topics.get(topic);
    if (served === undefined) {
      if (this.peer.isFull) throw protocolError('a client asks on and reads no answers');
      this.peer.send(followFrame({ kind: 'failed', topic, error: errorData(unknownTopic(topic)) }));
      return;
    }
    this.#followed.set(topic, {
      served,
      feed: served.records.feedOf(this.client.node),
      cursor: new TopicCursor(),
      neededVersion: changed,
      beganMs: this.#monotonic(),
      isToldFailed: false,
      isToldBehind: false,
    });
    this.pump();
  }

  /** Reports whether the topic can be sent, and tells the client when it cannot. */
  #mayFollow(followed: Followed): boolean {
    const { served, feed, neededVersion, beganMs, cursor } = followed;
    if (served.failure !== undefined) {
      if (!followed.isToldFailed)
        this.peer.send(followFrame({ kind: 'failed', topic: served.topic, error: served.failure }));
      followed.isToldFailed = true;
      return false;
    }
    if (!served.isLoaded) return false;
    if (neededVersion !== undefined && served.through !== undefined && served.through < neededVersion) {
      if (followed.isToldBehind) return false;
      served.relist();
      if (this.#monotonic() - beganMs >= BEHIND_MS) {
        this.peer.send(followFrame({ kind: 'failed', topic: served.topic, error: errorData(isBehind(served.topic)) }));
        followed.isToldBehind = true;
      }
      return false;
    }
    // Nothing has changed between the last change here and what the client has seen elsewhere.
    const isKnown = neededVersion !== undefined && served.through !== undefined;
    if (isKnown && (served.records.changed ?? neededVersion) < neededVersion) served.records.changed = neededVersion;
    followed.neededVersion = undefined;
    if (followed.isToldFailed) {
      // Once it has everything again, it is told so.
      followed.isToldFailed = false;
      cursor.completeAt ??= feed.log.head;
    }
    return true;
  }
}

function unknownTopic(topic: FollowTopic): NetplugError {
  return new NetplugError('typha/topic-unknown', `Cannot follow "${topic}": this server does not serve it`, {
    hint: 'Finish the upgrade: netplug-typha is upgraded before the agents',
    facts: { topic },
  });
}

function isBehind(topic: FollowTopic): NetplugError {
  return new NetplugError(
    'typha/behind',
    `Cannot serve "${topic}": the agent has seen a newer state of the datastore`,
    {
      hint: 'The agent asks another server. If it lasts, look at the load of the API servers',
      facts: { topic },
    },
  );
}
