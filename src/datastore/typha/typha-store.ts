import { type RetryPorts, withJitter } from '../../base/back-off.ts';
import type { repeat } from '../../base/clock.ts';
import { type ErrorCode, ERRORS } from '../../base/error-codes.ts';
import { type ErrorData, errorOf } from '../../base/error-data.ts';
import { invariant, isNetplugError, type NetplugError, reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { FollowEvent, FollowOptions, FollowStore, Query } from '../follow.ts';
import { FollowLink, type HeldTopics } from './follow-link.ts';
import { noServer, type TyphaServers } from './typha-servers.ts';
import { ServerAnswers } from './server-answers.ts';
import { TopicFollower } from './topic-follower.ts';
import { type FollowTopic, topicOf, type TopicQuery } from './topics.ts';

/** How often the state of connections is looked at. */
const STEP_MS = 500;
/** A connection on which nothing comes for that long is lost: servers send a beat every 3 s. */
const SILENT_MS = 10_000;
/** Time for a server to accept a connection: it may have to identify a thousand others first. */
const OPEN_MS = 12_000;
/** Followers fail when no server has sent anything for that long. */
const NONE_MS = 15_000;
/** A connection that is not ready although nothing of its topics has come for that long will not become so. */
const STUCK_MS = 20_000;
/** Wait before all servers are tried again, doubled up to the limit. */
const ROUND_MS = { first: 1000, most: 8000 };
/** Time over which clients move to a server that is new. */
const SPREAD_MS = 60_000;

export interface TyphaStorePorts extends RetryPorts {
  readonly log: Log;
  readonly servers: TyphaServers;
  readonly repeat: typeof repeat;
}

/** What a TyphaStore is doing, to be shown. */
export interface TyphaStanding {
  /** The server that is followed; undefined for none. */
  readonly server: string | undefined;
  readonly sinceMs: number | undefined;
  /** When something was last received from it, by the monotonic clock. */
  readonly heardMs: number | undefined;
  readonly moves: number;
  /** Records that differed after moves. */
  readonly differed: number;
  /** Why the last connection failed or ended. */
  readonly lastError: string | undefined;
  /** The code of that error; undefined where the connection only ended. */
  readonly lastCode: ErrorCode | undefined;
}

/**
 * Follows a datastore over the network, through one of several servers. All followers share one connection. A move to another
 * server is made before the connection to the first is closed, and followers get what differs.
 */
export class TyphaStore implements FollowStore {
  readonly #ports: TyphaStorePorts;
  readonly #followers = new Set<TopicFollower>();
  readonly #held: HeldTopics = { copies: new Map(), seen: new Map() };
  #current: FollowLink | undefined;
  #candidate: FollowLink | undefined;
  #connecting: AbortController | undefined;
  #running: AbortController | undefined;
  /** Servers that were tried since the last that was adopted, or the last wait. */
  readonly #tried = new Set<string>();
  #rounds = 0;
  #nextTryMs = 0;
  #lostMs = 0;
  /** When to move to another server; undefined while this one is good. */
  #moveMs: number | undefined;
  #isLeaving = false;
  /** Whether a server that cannot serve every topic is followed: none can. */
  #acceptsFailed = false;
  readonly #answers = new ServerAnswers();
  #events = 0;
  #standing: TyphaStanding = {
    server: undefined,
    sinceMs: undefined,
    heardMs: undefined,
    moves: 0,
    differed: 0,
    lastError: undefined,
    lastCode: undefined,
  };

  constructor(ports: TyphaStorePorts) {
    this.#ports = ports;
  }

  get standing(): TyphaStanding {
    return { ...this.#standing, heardMs: this.#current?.receivedMs };
  }

  /** Always begins with a snapshot. Every query must have a topic. */
  async *follow(queries: readonly Query[], { signal }: FollowOptions): AsyncGenerator<FollowEvent> {
    const topics = queries.flatMap((query) => topicOf(query) ?? []);
    invariant(topics.length === queries.length, 'a query that no topic answers is followed over the network');
    yield* this.followTopics(topics, signal);
  }

  /**
   * Follows topics as `follow` does queries. The version of an event is that of the source up to which nothing is missing if there is
   * one topic, and the server says it.
   */
  async *followTopics(topics: readonly TopicQuery[], signal: AbortSignal): AsyncGenerator<FollowEvent> {
    if (signal.aborted) return;
    const follower = new TopicFollower(topics);
    const close = (): void => follower.events.close();
    signal.addEventListener('abort', close, { once: true });
    this.#add(follower);
    try {
      yield* follower.events;
    } finally {
      signal.removeEventListener('abort', close);
      this.#remove(follower);
    }
  }

  /** The servers have changed. */
  reconsider(): void {
    const { servers, clock, random } = this.#ports;
    if (this.#current === undefined || this.#isLeaving) return;
    const [best] = servers.order({ name: this.#current.server, isLeaving: false });
    if (best === undefined) return;
    if (best === this.#current.server) this.#moveMs = undefined;
    else this.#moveMs ??= clock.monotonic() + random.int(SPREAD_MS);
  }

  #add(follower: TopicFollower): void {
    this.#followers.add(follower);
    for (const topic of follower.topics) {
      this.#current?.begin(topic);
      this.#candidate?.begin(topic);
    }
    if (this.#running === undefined) {
      this.#running = new AbortController();
      this.#lostMs = this.#ports.clock.monotonic();
      this.#ports.repeat(() => this.#step(), STEP_MS, this.#running.signal);
    }
    follower.begin(this.#held.copies, this.#versionFor(follower));
    this.#step();
  }

  #remove(follower: TopicFollower): void {
    if (!this.#followers.delete(follower)) return;
    const kept = this.#wanted();
    for (const topic of follower.topics) {
      if (kept.has(topic)) continue;
      this.#held.copies.delete(topic);
      this.#current?.end(topic);
      this.#candidate?.end(topic);
    }
    if (this.#followers.size > 0) return;
    this.#running?.abort();
    this.#running = undefined;
    this.#dropCandidate();
    const current = this.#current;
    this.#current = undefined;
    current?.close();
    this.#standing = { ...this.#standing, server: undefined, sinceMs: undefined };
  }

  #wanted(): ReadonlySet<FollowTopic> {
    return new Set([...this.#followers].flatMap(({ topics }) => [...topics]));
  }

  /** Does what is due: every change of the state of a connection leads here. */
  #step(): void {
    if (this.#followers.size === 0) return;
    const nowMs = this.#ports.clock.monotonic();
    const current = this.#current;
    if (current !== undefined && nowMs - current.receivedMs > SILENT_MS) {
      // A link that is closed tells of its end at once.
      this.#lose('it is silent');
      current.close();
    }
    this.#failRefused();
    const candidate = this.#candidate;
    if (candidate !== undefined) this.#judge(candidate, nowMs);
    if (this.#candidate === undefined && this.#needsServer(nowMs) && nowMs >= this.#nextTryMs) this.#tryNext(nowMs);
    const heardMs = Math.max(this.#lostMs, this.#candidate?.isOpen === true ? this.#candidate.receivedMs : 0);
    if (this.#current === undefined && nowMs - heardMs >= NONE_MS) this.#failAll(noServer(this.#standing.lastError));
  }

  #needsServer(nowMs: number): boolean {
    if (this.#current === undefined || this.#current.isFailed) return true;
    return this.#moveMs !== undefined && nowMs >= this.#moveMs;
  }

  #judge(candidate: FollowLink, nowMs: number): void {
    if (this.#current !== undefined && candidate.lacksTopicOf(this.#current))
      this.#reject(candidate, 'it does not serve a topic that the present server has');
    else if (candidate.isReady(this.#acceptsFailed)) this.#adopt(candidate);
    else if (candidate.isFailed && !(this.#acceptsFailed && candidate.servesSome)) {
      this.#answers.add(candidate);
      this.#reject(candidate, 'it does not serve every topic');
    } else if (nowMs - candidate.receivedMs > (candidate.isOpen ? SILENT_MS : OPEN_MS))
      this.#reject(candidate, 'it is silent');
    else if (candidate.isOpen && nowMs - candidate.progressMs > STUCK_MS) {
      this.#answers.add(candidate);
      this.#reject(candidate, 'it does not become ready');
    }
  }

  #tryNext(nowMs: number): void {
    const { servers, random } = this.#ports;
    // While the server that is followed has a newer one, it is not all that have an older state.
    if (this.#current?.isFailed !== false && this.#answers.areRestored(nowMs)) this.#acceptRestored();
    const next = this.#candidates().find((server) => !this.#tried.has(server));
    if (next !== undefined) {
      this.#tried.add(next);
      void this.#open(next);
      return;
    }
    if (this.#current?.isFailed === false && !this.#isLeaving) {
      // The server that the node would prefer does not serve: it stays where it is.
      this.#moveMs = undefined;
      this.#tried.clear();
      return;
    }
    // None is better than the one that is followed: those who need what it lacks are told.
    if (this.#current?.isFailed === true) {
      this.#answers.add(this.#current);
      this.#failTopics(({ code }) => ERRORS[code].retry);
    }
    const before = this.#acceptsFailed;
    this.#acceptsFailed = this.#answers.endRound(nowMs) && this.#current === undefined;
    // The first round may have known no server. One that waits for a first snapshot, as ADD does, learns early that there is none.
    if (this.#current === undefined && this.#rounds > 0 && (before || !this.#acceptsFailed))
      this.#failAll(
        noServer(this.#standing.lastError),
        [...this.#followers].filter(({ hasSnapshot }) => !hasSnapshot),
      );
    this.#tried.clear();
    this.#nextTryMs = nowMs + withJitter(Math.min(ROUND_MS.most, ROUND_MS.first * 2 ** this.#rounds), random);
    this.#rounds += 1;
    servers.refresh();
  }

  #acceptRestored(): void {
    this.#ports.log.warning('older state accepted', { reason: 'all servers had it for 30 s' });
    this.#held.seen.clear();
    this.#answers.forget();
  }

  /** Returns the servers to which this node may move. */
  #candidates(): readonly string[] {
    const current = this.#current;
    const { servers } = this.#ports;
    if (current === undefined) return servers.order();
    const order = servers.order({ name: current.server, isLeaving: this.#isLeaving });
    if (current.isFailed || this.#isLeaving) return order.filter((server) => server !== current.server);
    const own = order.indexOf(current.server);
    return own === -1 ? order : order.slice(0, own);
  }

  async #open(server: string): Promise<void> {
    const { clock, servers } = this.#ports;
    const link: FollowLink = new FollowLink(server, {
      held: this.#held,
      clock,
      events: {
        onChanges: (topic, changes) => {
          for (const follower of this.#followers) follower.take(topic, changes, this.#versionFor(follower));
        },
        onProgress: () => this.#progress(),
        onServers: (list) => {
          servers.learn(list);
          this.reconsider();
        },
        onLeave: (withinMs) => {
          if (link === this.#current) {
            this.#isLeaving = true;
            this.#moveMs = clock.monotonic() + withinMs;
          } else this.#reject(link, 'it is leaving');
        },
        onBeat: () => {
          if (link !== this.#current) return;
          for (const follower of this.#followers)
            if (![...follower.topics].some((topic) => link.errorOf(topic) !== undefined))
              follower.bookmark(this.#versionFor(follower));
        },
      },
    });
    this.#candidate = link;
    const connecting = new AbortController();
    this.#connecting = connecting;
    try {
      const peer = await servers.connect(
        server,
        {
          onFrame: (frame) => link.receive(frame),
          onDrain: () => undefined,
          onEnd: (cause) => this.#ended(link, cause),
        },
        connecting.signal,
      );
      if (this.#candidate !== link) {
        peer.end();
        return;
      }
      const wanted = this.#wanted();
      link.open(
        peer,
        wanted,
        [...wanted].filter((topic) => this.#current?.errorOf(topic) !== undefined),
      );
      this.#progress();
    } catch (cause) {
      if (this.#candidate === link) this.#reject(link, reasonOf(cause), codeOf(cause));
    }
  }

  #adopt(link: FollowLink): void {
    const { clock, log } = this.#ports;
    const before = this.#current;
    this.#current = link;
    this.#candidate = undefined;
    this.#connecting = undefined;
    // Before anything that may lead to another step.
    this.#tried.clear();
    this.#rounds = 0;
    this.#moveMs = undefined;
    this.#isLeaving = false;
    this.#answers.forget();
    this.#acceptsFailed = false;
    const changes = link.adopt();
    before?.close();
    const isMove = this.#standing.server !== undefined;
    const { moves, differed } = this.#standing;
    this.#standing = {
      ...this.#standing,
      server: link.server,
      sinceMs: clock.monotonic(),
      moves: moves + (isMove ? 1 : 0),
      differed: differed + (isMove ? changes : 0),
    };
    log.info('server followed', { server: link.server });
    this.#beginFollowers();
  }

  #progress(): void {
    this.#beginFollowers();
    this.#step();
  }

  #beginFollowers(): void {
    if (this.#current === undefined) return;
    for (const follower of this.#followers) follower.begin(this.#held.copies, this.#versionFor(follower));
  }

  #ended(link: FollowLink, cause: NetplugError | undefined): void {
    const why = cause === undefined ? 'it was closed' : cause.message;
    if (link === this.#current) this.#lose(why, cause?.code);
    else if (link === this.#candidate) this.#reject(link, why, cause?.code);
    else return;
    this.#step();
  }

  #lose(why: string, code?: ErrorCode): void {
    const { clock, log } = this.#ports;
    log.warning('server lost', { server: this.#current?.server, reason: why });
    this.#current = undefined;
    this.#isLeaving = false;
    this.#moveMs = undefined;
    this.#lostMs = clock.monotonic();
    this.#nextTryMs = this.#lostMs;
    this.#standing = { ...this.#standing, lastError: why, lastCode: code };
  }

  #reject(link: FollowLink, why: string, code?: ErrorCode): void {
    if (link !== this.#candidate) return;
    this.#dropCandidate();
    this.#standing = { ...this.#standing, lastError: `${link.server}: ${why}`, lastCode: code };
    this.#step();
  }

  #dropCandidate(): void {
    const link = this.#candidate;
    this.#candidate = undefined;
    this.#connecting?.abort();
    this.#connecting = undefined;
    link?.close();
  }

  /** Tells the followers of a topic that every server would refuse. */
  #failRefused(): void {
    this.#failTopics(({ code }) => !ERRORS[code].retry);
  }

  #failTopics(isMeant: (error: ErrorData) => boolean): void {
    for (const follower of this.#followers) {
      for (const topic of follower.topics) {
        const error = this.#current?.errorOf(topic);
        if (error !== undefined && isMeant(error)) follower.events.fail(errorOf(error));
      }
    }
  }

  #failAll(error: NetplugError, followers: Iterable<TopicFollower> = this.#followers): void {
    for (const { events } of followers) events.fail(error);
  }

  #versionFor({ topics }: TopicFollower): string {
    const [topic, ...others] = topics;
    const through = topic === undefined || others.length > 0 ? undefined : this.#current?.throughOf(topic);
    if (through !== undefined) return String(through);
    this.#events += 1;
    return `${this.#current?.server ?? ''}#${String(this.#events)}`;
  }
}

function codeOf(cause: unknown): ErrorCode | undefined {
  return isNetplugError(cause) ? cause.code : undefined;
}
