import { keepRunning, type RetryPorts } from '../../base/back-off.ts';
import { reasonOf } from '../../base/errors.ts';
import { RecordCache } from '../../cache/record-cache.ts';
import type { FollowStore } from '../../datastore/follow.ts';
import type { ControllerPorts } from './controller.ts';
import type { Feed, Observed, ObservedChange, Side } from './observed.ts';

type FollowerPorts = Pick<ControllerPorts, 'log' | 'confirmCluster'> & RetryPorts & { readonly store: FollowStore };

/** Follows the feeds of one side, in one stream, and keeps what it observes. */
export class SideFollower {
  readonly #ports: FollowerPorts;
  readonly #side: Side;
  readonly #feeds: readonly Feed[];
  readonly #observed: Observed;
  readonly #cache = new RecordCache();
  #problem: string | undefined;

  constructor(
    ports: FollowerPorts,
    side: Side,
    { feeds, observed }: { readonly feeds: readonly Feed[]; readonly observed: Observed },
  ) {
    this.#ports = ports;
    this.#side = side;
    this.#feeds = feeds;
    this.#observed = observed;
    this.#problem = feeds.length === 0 ? undefined : `the ${side} has not been read yet`;
  }

  /** Reason why what is observed may be incomplete or outdated; undefined when it is neither. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Reports changes, at first everything, until the signal aborts. */
  async run(onChanges: (changes: readonly ObservedChange[]) => void, signal: AbortSignal): Promise<void> {
    if (this.#feeds.length === 0) return;
    const { store, log, confirmCluster } = this.#ports;
    const queries = this.#feeds.map(({ query }) => query);
    const work = async (): Promise<void> => {
      // A leader must not decide by what another process, or an earlier watch, had cached.
      for await (const event of store.follow(queries, { isFresh: true, signal })) {
        // It may have come from another server than the records before.
        if (event.kind === 'snapshot') await confirmCluster(signal);
        const deltas = this.#cache.apply(event);
        this.#problem = undefined;
        onChanges(
          deltas.flatMap((delta) => {
            const feed = this.#feeds[delta.after.query];
            return feed === undefined ? [] : this.#observed.take(feed, delta);
          }),
        );
      }
    };
    const onFailure = (cause: unknown, failures: number): void => {
      const reason = reasonOf(cause);
      this.#problem = `the watch of the ${this.#side} is interrupted: ${reason}`;
      if (failures === 1) log.warning('watch lost', { side: this.#side, reason });
    };
    await keepRunning(this.#ports, { work, onFailure }, signal);
  }
}
