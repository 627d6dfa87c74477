import { expect, it } from 'vitest';
import { followedPool, FollowSource } from '../../../test/support/follow-source.ts';
import { inSimulatedTime } from '../../../test/support/simulated-time.ts';
import { systemClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import type { FollowEvent, FollowOptions, Query } from '../../datastore/follow.ts';
import { ServedTopic } from './served-topic.ts';

const LIST_MS = 8000;

/** A source whose lists take their time. */
class SlowSource extends FollowSource {
  lists = 0;

  override async *follow(queries: readonly Query[], options: FollowOptions): AsyncGenerator<FollowEvent> {
    this.lists += 1;
    await pass(LIST_MS);
    if (!options.signal.aborted) yield* super.follow(queries, options);
  }
}

const pass = async (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

it('finishes a list that a client needs, however often it is asked for another one', async () => {
  await inSimulatedTime(Date.UTC(2026, 0), async () => {
    const source = new SlowSource();
    const served = new ServedTopic(
      'resources/IPPool',
      { kind: 'resources', of: 'IPPool' },
      {
        clock: systemClock,
        random: systemRandom,
        store: source,
        log: silentLog,
        versionOf: Number,
        onChange: () => undefined,
      },
    );
    const over = new AbortController();
    const running = served.run(over.signal);
    await pass(LIST_MS + 1000);
    source.put(followedPool('a'));
    for (let second = 0; second < 60; second += 1) {
      served.relist();
      await pass(1000);
      if (second === 30) source.put(followedPool('b'));
    }
    expect(served.feed.log.keys()).toEqual(['a', 'b']);
    // The first, and one every 13 s: 5 s pass between them.
    expect(source.lists).toBe(6);
    over.abort();
    await running;
  });
});
