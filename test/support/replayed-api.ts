// An API server as a replayed stream: lists and watches with the text that an API server sends, without a network. What reads
// it parses, trims and converts as in front of a real one. Objects are made when they are sent, so that they take no memory.
import { PassThrough, Readable } from 'node:stream';
import type { Transport } from '../../src/kube/transport.ts';

type Answer = Awaited<ReturnType<Transport['open']>>;

/** The objects of a collection when it is listed. */
export interface ReplayedList {
  readonly count: number;
  readonly at: (index: number) => object;
}

export interface ReplayedEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: { readonly metadata: object };
}

export class ReplayedApi {
  readonly transport: Transport;
  /** What was asked of it, what it sent to watches, and what the texts took to make. */
  readonly counts = { lists: 0, watches: 0, events: 0, eventBytes: 0, cpuMs: 0 };
  readonly #lists: Readonly<Record<string, ReplayedList>>;
  readonly #watches = new Map<string, Set<PassThrough>>();
  #version = 1;

  /** By the path of the collection; every other one is empty. */
  constructor(lists: Readonly<Record<string, ReplayedList>>) {
    this.#lists = lists;
    this.transport = {
      open: async (_, { path }) => {
        const [place = '', query = ''] = path.split('?');
        return Promise.resolve(this.#answer(place, new URLSearchParams(query)));
      },
      close: () => undefined,
    };
  }

  /** Sends a change to the watches of the collection. */
  send(path: string, make: () => ReplayedEvent): void {
    this.#version += 1;
    const line = this.#made(() => {
      const { type, object } = make();
      const metadata = { ...object.metadata, resourceVersion: String(this.#version) };
      return Buffer.from(`${JSON.stringify({ type, object: { ...object, metadata } })}\n`);
    });
    this.counts.events += 1;
    this.counts.eventBytes += line.length;
    for (const watch of this.#watches.get(path) ?? []) watch.write(line);
  }

  #answer(path: string, query: URLSearchParams): Answer {
    // A single object is asked for as a sign of life.
    if (!/^\/(api\/v1|apis\/[^/]+\/[^/]+)\/[^/]+$/.test(path))
      return answerOf(404, { kind: 'Status', reason: 'NotFound', message: `${path} is missing` });
    return query.get('watch') === '1' ? this.#watch(path) : this.#list(path, query);
  }

  #watch(path: string): Answer {
    const watch = new PassThrough();
    const all = this.#watches.get(path) ?? new Set();
    this.#watches.set(path, all.add(watch));
    watch.on('close', () => all.delete(watch));
    this.counts.watches += 1;
    return { status: 200, headers: {}, body: watch };
  }

  #list(path: string, query: URLSearchParams): Answer {
    const { count, at } = this.#lists[path] ?? { count: 0, at: () => ({}) };
    const from = Number(query.get('continue') ?? 0);
    const to = Math.min(count, from + Number(query.get('limit') ?? count));
    const metadata = { resourceVersion: String(this.#version), ...(to < count ? { continue: String(to) } : {}) };
    this.counts.lists += 1;
    const items = (): object[] => Array.from({ length: to - from }, (_, index) => at(from + index));
    return this.#made(() => answerOf(200, { metadata, items: items() }));
  }

  #made<T>(make: () => T): T {
    const begun = process.threadCpuUsage();
    const made = make();
    const { user, system } = process.threadCpuUsage(begun);
    this.counts.cpuMs += (user + system) / 1000;
    return made;
  }
}

function answerOf(status: number, value: object): Answer {
  return { status, headers: {}, body: Readable.from([Buffer.from(JSON.stringify(value))]) };
}
