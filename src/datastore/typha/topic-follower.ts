import { Channel } from '../../base/channel.ts';
import type { FollowedRecord, FollowEvent } from '../follow.ts';
import { changeFor, type CopyChange, type TopicCopy } from './topic-copy.ts';
import type { FollowTopic, TopicQuery } from './topics.ts';

/** One follower of some topics: gets a snapshot when all of them are there, and then what changes. */
export class TopicFollower {
  readonly events = new Channel<FollowEvent>();
  readonly #queries: readonly TopicQuery[];
  readonly topics: ReadonlySet<FollowTopic>;
  #hasSnapshot = false;

  constructor(queries: readonly TopicQuery[]) {
    this.#queries = queries;
    this.topics = new Set(queries.map(({ topic }) => topic));
  }

  get hasSnapshot(): boolean {
    return this.#hasSnapshot;
  }

  /** Yields the snapshot if it waits for one and every topic is there. */
  begin(copies: ReadonlyMap<FollowTopic, TopicCopy>, version: string): void {
    if (this.#hasSnapshot || ![...this.topics].every((topic) => copies.has(topic))) return;
    this.#hasSnapshot = true;
    const records = this.#queries.flatMap(({ topic, isIncluded }, query): FollowedRecord[] =>
      [...(copies.get(topic)?.values() ?? [])].flatMap(({ record }) =>
        record !== undefined && isIncluded(record) ? [{ ...record, query }] : [],
      ),
    );
    this.events.push({ kind: 'snapshot', records, version });
  }

  take(topic: FollowTopic, changes: readonly CopyChange[], version: string): void {
    if (!this.#hasSnapshot) return;
    const records = this.#queries.flatMap((each, query): FollowedRecord[] => {
      if (each.topic !== topic) return [];
      return changes.flatMap((change) => {
        const record = changeFor(change, each.isIncluded);
        return record === undefined ? [] : [{ ...record, query }];
      });
    });
    if (records.length > 0) this.events.push({ kind: 'changes', records, version });
  }

  bookmark(version: string): void {
    if (this.#hasSnapshot) this.events.push({ kind: 'bookmark', version });
  }
}
