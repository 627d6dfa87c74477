import { setImmediate as nextTurn } from 'node:timers/promises';
import type { repeat } from '../../base/clock.ts';
import { NetplugError } from '../../base/errors.ts';
import type { Query } from '../../datastore/follow.ts';
import { followFrame } from '../../datastore/typha/follow-frames.ts';
import { type FollowTopic, OWN_BLOCKS } from '../../datastore/typha/topics.ts';
import type { NodeName } from '../../model/names.ts';
import type { AdmittedClient } from '../../stream/admit-client.ts';
import { LEAVE_MESSAGE, type ServerEntry, SERVERS_MESSAGE } from '../../stream/handshake.ts';
import type { StreamPeer, PeerListener } from '../../stream/peer.ts';
import { Allowance } from './allowance.ts';
import { FollowSession } from './follow-session.ts';
import { untilFlushMs } from './flush-pace.ts';
import { ServedTopic, type ServedTopicPorts } from './served-topic.ts';

/** Clients learn that often that the server is there, and where its topics stand. */
const BEAT_MS = 3000;
/** A client from which nothing comes for that long is gone. */
const SILENT_MS = 60_000;
/** Connections of one node. */
const MOST_OF_NODE = 4;
/** Connections that a node may open in a minute: each costs the server a handshake. An agent tries each server once in some seconds. */
const MOST_OPENED = 60;
/** The topic whose records are the nodes of the cluster, by name. */
const NODES = 'nodes';

export interface FollowServicePorts extends Omit<ServedTopicPorts, 'onChange'> {
  readonly repeat: typeof repeat;
  /** Called when a client is ended because its node was removed. */
  readonly onNodeGone?: (node: NodeName) => void;
}

export interface FollowServiceOptions {
  readonly ports: FollowServicePorts;
  readonly topics: ReadonlyMap<FollowTopic, Query>;
  readonly maxClients: number;
}

/** Serves topics to any number of clients: one follow per topic, one write per client and flush. */
export class FollowService {
  readonly #ports: FollowServicePorts;
  readonly #maxClients: number;
  readonly #topics: ReadonlyMap<FollowTopic, ServedTopic>;
  readonly #sessions = new Set<FollowSession>();
  readonly #opened = new Allowance(MOST_OPENED);
  readonly #over = new AbortController();
  #lastFlushMs = Number.NEGATIVE_INFINITY;
  #isFlushDue = false;
  /** Topics that have changed since the last flush. */
  readonly #changed = new Set<FollowTopic>();
  #isBuilding = false;
  /** What clients are told of the servers. */
  #servers: Buffer | undefined;

  constructor({ ports, topics, maxClients }: FollowServiceOptions) {
    this.#ports = ports;
    this.#maxClients = maxClients;
    const onChange = (topic: FollowTopic): void => {
      this.#changed.add(topic);
      this.#schedule();
    };
    const own = { ...ports, onChange };
    this.#topics = new Map([...topics].map(([topic, query]) => [topic, new ServedTopic(topic, query, own)]));
  }

  get topics(): Iterable<ServedTopic> {
    return this.#topics.values();
  }

  get sessions(): ReadonlySet<FollowSession> {
    return this.#sessions;
  }

  /** Follows all topics until the signal aborts, and then ends all connections. */
  async run(signal: AbortSignal): Promise<void> {
    this.#ports.repeat(() => this.#beat(), BEAT_MS, signal);
    await Promise.all([...this.#topics.values()].map(async (topic) => topic.run(signal)));
    this.#over.abort();
    for (const { peer } of this.#sessions) peer.end();
  }

  /** Takes a client that has proved its node. @throws stream/full */
  admit(client: AdmittedClient, peer: StreamPeer): PeerListener {
    if (this.#sessions.size >= this.#maxClients)
      throw new NetplugError(
        'stream/full',
        `Cannot serve another client: ${String(this.#sessions.size)} are connected`,
        {
          hint: 'The client asks another server. Add replicas if all are full',
        },
      );
    if (!this.#opened.take(this.#ports.clock.monotonic(), client.node))
      throw new NetplugError(
        'stream/full',
        `Cannot serve another client of node "${client.node}": it connects too often`,
        {
          hint: 'Look in the log of its agent why it loses its connections',
        },
      );
    this.#endOldest(client.node);
    const session = new FollowSession(client, peer, {
      topics: this.#topics,
      monotonic: () => this.#ports.clock.monotonic(),
    });
    this.#sessions.add(session);
    return {
      onFrame: (frame) => {
        session.receive(frame);
        this.#tellServers(session);
        if (session.isLoading) this.#schedule();
      },
      onDrain: () => {
        session.pump();
        if (session.isLoading) this.#schedule();
      },
      onEnd: () => this.#sessions.delete(session),
    };
  }

  /** An agent that has lost a connection may be back before the server knows; more than that would take the places of others. */
  #endOldest(node: NodeName): void {
    const own = [...this.#sessions].filter(({ client }) => client.node === node);
    if (own.length >= MOST_OF_NODE) own[0]?.peer.end();
  }

  /** Tells clients of the servers, now and when they connect. */
  announce(servers: readonly ServerEntry[]): void {
    const frame = SERVERS_MESSAGE.frame(servers);
    if (this.#servers?.equals(frame) === true) return;
    this.#servers = frame;
    for (const session of this.#sessions) this.#tellServers(session);
  }

  /** Asks every client to move to another server, each at a time of its own. */
  leave(withinMs: number): void {
    let count = 0;
    for (const { peer } of this.#sessions) {
      peer.send(LEAVE_MESSAGE.frame({ withinMs: Math.round((withinMs * count) / this.#sessions.size) }));
      count += 1;
    }
  }

  /** Reports whether the node of the client existed, and was removed: its token may be good for an hour. */
  #isNodeGone(session: FollowSession): boolean {
    const nodes = this.#topics.get(NODES);
    if (nodes?.isCurrent !== true) return false;
    const isThere = nodes.records.has(session.client.node);
    session.isNodeKnown ||= isThere;
    return session.isNodeKnown && !isThere;
  }

  #tellServers(session: FollowSession): void {
    if (this.#servers === undefined || session.toldServers === this.#servers || session.peer.isFull) return;
    session.toldServers = this.#servers;
    session.peer.send(this.#servers);
  }

  /** Makes sure that what has changed is sent, and what is asked for is built. */
  #schedule(): void {
    void this.#build();
    if (this.#isFlushDue) return;
    this.#isFlushDue = true;
    const { clock } = this.#ports;
    const waitMs = untilFlushMs(this.#lastFlushMs, clock.monotonic(), this.#sessions.size);
    void clock.sleep(waitMs, this.#over.signal).then(
      () => this.#flush(),
      () => undefined,
    );
  }

  #flush(): void {
    this.#isFlushDue = false;
    this.#lastFlushMs = this.#ports.clock.monotonic();
    for (const topic of this.#topics.values()) topic.flush();
    const changed = [...this.#changed];
    this.#changed.clear();
    for (const session of this.#sessions) {
      if (session.isLoading) session.pump();
      else session.pump(changed);
    }
    void this.#build();
  }

  /** Builds snapshots a slice per turn, and sends what is ready. */
  async #build(): Promise<void> {
    if (this.#isBuilding) return;
    this.#isBuilding = true;
    for (;;) {
      const feeds = [...this.#topics.values()].flatMap(({ records }) => [...records.building()]);
      if (feeds.length === 0) break;
      for (const feed of feeds) feed.build();
      for (const session of this.#sessions) if (session.isLoading) session.pump();
      await nextTurn();
    }
    this.#isBuilding = false;
  }

  #beat(): void {
    const nodes = new Set([...this.#sessions].map(({ client }) => client.node));
    for (const topic of this.#topics.values()) {
      topic.settle();
      topic.records.keepOnly(nodes);
    }
    const states = [...this.#topics].map(([topic, { state }]) => [topic, state] as const);
    const beat = followFrame({ kind: 'beat', topics: Object.fromEntries(states) });
    // Where topics that differ from client to client stand is true for one that has been sent everything.
    const late = states.filter(([topic]) => topic !== OWN_BLOCKS);
    const beatOfLate = followFrame({ kind: 'beat', topics: Object.fromEntries(late) });
    const nowMs = this.#ports.clock.monotonic();
    for (const session of this.#sessions) {
      const { peer } = session;
      if (this.#isNodeGone(session)) {
        this.#ports.onNodeGone?.(session.client.node);
        peer.end();
      } else if (nowMs - peer.receivedMs > SILENT_MS) peer.end();
      // A client that takes less than it is sent is not sent more.
      else if (!peer.isFull) {
        session.pump();
        peer.send(session.hasSent(OWN_BLOCKS) ? beat : beatOfLate);
        this.#tellServers(session);
      }
    }
  }
}
