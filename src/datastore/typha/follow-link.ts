import type { ErrorData } from '../../base/error-data.ts';
import { ERRORS } from '../../base/error-codes.ts';
import type { Clock } from '../../base/clock.ts';
import { ALIVE, LEAVE_MESSAGE, type ServerEntry, SERVERS_MESSAGE, STREAM_FRAME } from '../../stream/handshake.ts';
import type { StreamPeer } from '../../stream/peer.ts';
import type { StreamFrame } from '../../stream/stream-frames.ts';
import { followFrame, type FollowPart, readServerFrame } from './follow-frames.ts';
import { applyLines, type CopyChange, copyDifferences, type TopicCopy } from './topic-copy.ts';
import type { FollowTopic } from './topics.ts';

/** Positions are acknowledged at most that often. */
const ACK_MS = 1000;
/** A client that has nothing to acknowledge says that often that it is there. */
const ALIVE_MS = 10_000;

/** What a client has, whatever server it came from. */
export interface HeldTopics {
  readonly copies: Map<FollowTopic, TopicCopy>;
  /** Version of the last change at the source that the client has applied: it never goes back to an older state. */
  readonly seen: Map<FollowTopic, number>;
}

/** A topic on one connection. */
interface LinkedTopic {
  /** The snapshot that is received, or waits until the other topics are complete; undefined once it is in the copy. */
  staged: TopicCopy | undefined;
  isComplete: boolean;
  changed: number | undefined;
  /** The version of the source up to which nothing is missing, as far as the server says it. */
  through: number | undefined;
  position: number;
  /** What the server has said of it last; undefined while it is served. */
  error: ErrorData | undefined;
}

export interface LinkEvents {
  /** Records of a topic have changed. */
  readonly onChanges: (topic: FollowTopic, changes: readonly CopyChange[]) => void;
  /** Something has come that may complete the connection, or end it. */
  readonly onProgress: () => void;
  readonly onServers: (servers: readonly ServerEntry[]) => void;
  readonly onLeave: (withinMs: number) => void;
  readonly onBeat: () => void;
}

/**
 * What has come over one connection. Its snapshots are staged until all are complete and it is adopted, so that a move to another
 * server changes only the records that differ.
 */
export class FollowLink {
  readonly server: string;
  readonly openedMs: number;
  #peer: StreamPeer | undefined;
  readonly #held: HeldTopics;
  readonly #clock: Clock;
  readonly #events: LinkEvents;
  readonly #topics = new Map<FollowTopic, LinkedTopic>();
  /** Topics that are begun when those before are complete. */
  readonly #waiting = new Set<FollowTopic>();
  #isAdopted = false;
  #ackedMs = 0;
  #isAckDue = false;

  constructor(
    server: string,
    {
      held,
      clock,
      events,
    }: {
      readonly held: HeldTopics;
      readonly clock: Clock;
      readonly events: LinkEvents;
    },
  ) {
    this.server = server;
    this.#held = held;
    this.#clock = clock;
    this.#events = events;
    this.openedMs = clock.monotonic();
    this.progressMs = this.openedMs;
  }

  /** When something was last received that a topic lacked, or the connection was begun. */
  progressMs: number;
  /** When something was last received, or the connection was begun. */
  get receivedMs(): number {
    return this.#peer?.receivedMs ?? this.openedMs;
  }

  get isOpen(): boolean {
    return this.#peer !== undefined;
  }

  /**
   * The server has accepted the connection: topics are begun. Those that are doubted come first, and the others when these are
   * complete: a server that lacks them as well would send everything else for nothing.
   */
  open(peer: StreamPeer, topics: Iterable<FollowTopic>, doubted: readonly FollowTopic[]): void {
    this.#peer = peer;
    this.progressMs = this.#clock.monotonic();
    for (const topic of doubted) this.begin(topic);
    for (const topic of topics) {
      if (doubted.length === 0) this.begin(topic);
      else if (!doubted.includes(topic)) this.#waiting.add(topic);
    }
  }

  begin(topic: FollowTopic): void {
    if (this.#topics.has(topic) || this.#peer === undefined) return;
    const changed = this.#held.seen.get(topic);
    this.#waiting.delete(topic);
    this.#topics.set(topic, {
      staged: undefined,
      isComplete: false,
      changed: undefined,
      through: undefined,
      position: 0,
      error: undefined,
    });
    this.#peer.send(followFrame({ kind: 'begin', topic, changed }));
  }

  end(topic: FollowTopic): void {
    this.#waiting.delete(topic);
    if (!this.#topics.delete(topic)) return;
    this.#peer?.send(followFrame({ kind: 'end', topic }));
    this.#beginWaiting();
  }

  close(): void {
    this.#peer?.end();
    this.#peer = undefined;
  }

  /** Returns the version of the source up to which nothing of the topic is missing; undefined when the server has not said it. */
  throughOf(topic: FollowTopic): number | undefined {
    const linked = this.#topics.get(topic);
    // What a further snapshot is true for is not held yet.
    return linked?.isComplete === true ? linked.through : undefined;
  }

  /** Returns why the server does not serve the topic; undefined while it does, or may. */
  errorOf(topic: FollowTopic): ErrorData | undefined {
    return this.#topics.get(topic)?.error;
  }

  /**
   * Reports whether every topic is complete, and none older than what is held. A topic that is refused counts as complete; one
   * that has failed does where that is accepted, as long as there are others.
   */
  isReady(acceptsFailed: boolean): boolean {
    return (
      this.isOpen &&
      this.#waiting.size === 0 &&
      (!this.isFailed || (acceptsFailed && this.servesSome)) &&
      [...this.#topics].every(([topic, linked]) => {
        if (linked.error !== undefined) return true;
        if (!linked.isComplete) return false;
        const seen = this.#held.seen.get(topic);
        return seen === undefined || linked.changed === undefined || linked.changed >= seen;
      })
    );
  }

  /** Reports whether the server cannot serve a topic now that another server may. */
  get isFailed(): boolean {
    return [...this.#topics.values()].some(({ error }) => error !== undefined && ERRORS[error.code].retry);
  }

  /** Reports whether the server serves a topic, or may. */
  get servesSome(): boolean {
    return [...this.#topics.values()].some(({ error }) => error === undefined);
  }

  /** Reports whether the server refuses a topic that the other one serves: of two releases, only one may know it. */
  lacksTopicOf(other: FollowLink): boolean {
    return [...this.#topics].some(
      ([topic, { error }]) => error !== undefined && !ERRORS[error.code].retry && other.errorOf(topic) === undefined,
    );
  }

  get isBehind(): boolean {
    return [...this.#topics.values()].some(({ error }) => error?.code === 'typha/behind');
  }

  /** Makes this connection the one whose records are held. Returns how many of them differ. */
  adopt(): number {
    this.#isAdopted = true;
    let differed = 0;
    for (const [topic, linked] of this.#topics) if (linked.isComplete) differed += this.#take(topic, linked);
    this.#acknowledge();
    return differed;
  }

  /** @throws stream/protocol for what no server sends */
  receive(frame: StreamFrame): void {
    switch (frame.type) {
      case STREAM_FRAME.alive:
        return;
      case STREAM_FRAME.leave:
        this.#events.onLeave(LEAVE_MESSAGE.read(frame).withinMs);
        return;
      case STREAM_FRAME.servers:
        this.#events.onServers(SERVERS_MESSAGE.read(frame));
        return;
      default:
        this.#receiveFollow(frame);
    }
  }

  #receiveFollow(frame: StreamFrame): void {
    const message = readServerFrame(frame);
    if (message.kind === 'beat') {
      for (const [topic, { position, changed, through }] of Object.entries(message.topics)) {
        const linked = this.#topics.get(topic);
        if (linked === undefined || linked.position < position) continue;
        // A change that left every record as it was is in no part.
        if (changed !== undefined) this.#note(topic, linked, changed);
        if (through !== undefined && linked.isComplete) linked.through = through;
      }
      if (this.#isAckDue) this.#acknowledge();
      else if (this.#clock.monotonic() - this.#ackedMs >= ALIVE_MS) {
        this.#ackedMs = this.#clock.monotonic();
        this.#peer?.send(ALIVE);
      }
      this.#events.onBeat();
      return;
    }
    const linked = this.#topics.get(message.topic);
    // What is on its way may come after the end of the topic.
    if (linked === undefined) return;
    if (!linked.isComplete || message.kind !== 'part') this.progressMs = this.#clock.monotonic();
    switch (message.kind) {
      case 'part':
        this.#apply(linked, message);
        break;
      case 'complete':
        // It may be of a follow of the topic that was ended.
        if (linked.staged === undefined && !linked.isComplete) break;
        linked.isComplete = true;
        linked.error = undefined;
        if (this.#isAdopted) this.#take(message.topic, linked);
        this.#beginWaiting();
        this.#events.onProgress();
        break;
      case 'failed':
        linked.error = message.error;
        this.#beginWaiting();
        this.#events.onProgress();
    }
  }

  /** Begins the topics that wait, once those before are complete or refused. */
  #beginWaiting(): void {
    const isSettled = ({ isComplete, error }: LinkedTopic): boolean =>
      error === undefined ? isComplete : !ERRORS[error.code].retry;
    if (![...this.#topics.values()].every(isSettled)) return;
    for (const topic of this.#waiting) this.begin(topic);
  }

  #apply(linked: LinkedTopic, { topic, isFirst, position, changed, lines }: FollowPart): void {
    const copy = this.#held.copies.get(topic);
    const known: TopicCopy = copy ?? new Map();
    // What comes before the snapshot was on its way when the topic was ended and begun again.
    if (!isFirst && linked.staged === undefined && (copy === undefined || !linked.isComplete)) return;
    linked.position = position;
    if (isFirst) Object.assign(linked, { staged: new Map(), isComplete: false, through: undefined });
    const changes = applyLines(linked.staged ?? known, lines, { topic, known });
    if (changed !== undefined) this.#note(topic, linked, changed);
    if (linked.staged === undefined && changes.length > 0) this.#events.onChanges(topic, changes);
    this.#isAckDue = true;
    if (this.#isAdopted && this.#clock.monotonic() - this.#ackedMs >= ACK_MS) this.#acknowledge();
  }

  #note(topic: FollowTopic, linked: LinkedTopic, changed: number): void {
    // A server that is behind, and comes on, is not stuck.
    if (changed > (linked.changed ?? 0)) this.progressMs = this.#clock.monotonic();
    linked.changed = changed;
    linked.through = changed;
    if (this.#isAdopted && linked.staged === undefined) this.#held.seen.set(topic, changed);
  }

  /** Moves the staged records of a topic into what is held, as the changes between both. */
  #take(topic: FollowTopic, linked: LinkedTopic): number {
    const { staged } = linked;
    if (staged === undefined) return 0;
    linked.staged = undefined;
    const before = this.#held.copies.get(topic) ?? new Map<string, never>();
    this.#held.copies.set(topic, staged);
    if (linked.changed !== undefined) this.#held.seen.set(topic, linked.changed);
    const changes = copyDifferences(before, staged);
    if (changes.length > 0) this.#events.onChanges(topic, changes);
    return changes.length;
  }

  #acknowledge(): void {
    this.#ackedMs = this.#clock.monotonic();
    this.#isAckDue = false;
    const positions = [...this.#topics].map(([topic, { position }]) => [topic, position] as const);
    this.#peer?.send(followFrame({ kind: 'ack', positions: Object.fromEntries(positions) }));
  }
}
