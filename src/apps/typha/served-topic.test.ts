import { expect, it } from 'vitest';
import { followedPool, FollowSource } from '../../../test/support/follow-source.ts';
import { inSimulatedTime } from '../../../test/support/simulated-time.ts';
import { systemClock } from '../../base/clock.ts';
import { NetplugError } from '../../base/errors.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import type { FollowEvent, FollowOptions, Query } from '../../datastore/follow.ts';
import type { FollowTopic } from '../../datastore/typha/topics.ts';
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

/** Runs the scene with a topic that follows the source. */
async function served(
  topic: FollowTopic,
  source: FollowSource,
  scene: (topic: ServedTopic) => Promise<void>,
): Promise<void> {
  await inSimulatedTime(Date.UTC(2026, 0), async () => {
    const ports = {
      clock: systemClock,
      random: systemRandom,
      store: source,
      log: silentLog,
      versionOf: Number,
      onChange: () => undefined,
    };
    const followed = new ServedTopic(topic, { kind: 'resources', of: 'IPPool' }, ports);
    const over = new AbortController();
    const running = followed.run(over.signal);
    await scene(followed);
    over.abort();
    await running;
  });
}

it('finishes a list that a client needs, however often it is asked for another one', async () => {
  const source = new SlowSource();
  await served('resources/IPPool', source, async (topic) => {
    await pass(LIST_MS + 1000);
    source.put(followedPool('a'));
    for (let second = 0; second < 60; second += 1) {
      topic.relist();
      await pass(1000);
      if (second === 30) source.put(followedPool('b'));
    }
    expect([...topic.records.keys()]).toEqual(['a', 'b']);
    // The first, and one every 13 s: 5 s pass between them.
    expect(source.lists).toBe(6);
  });
});

it('says that objects are current up to a version only when frames lead there', async () => {
  const source = new FollowSource();
  await served('stored/IPPool', source, async (topic) => {
    const through = (): number | undefined => topic.state.through;
    source.put({ ...followedPool('a'), stored: {} });
    await pass(10);
    topic.settle();
    expect(through()).toBeUndefined();
    topic.flush();
    expect(through()).toBe(1);
    source.put({ ...followedPool('b'), stored: {} });
    await pass(10);
    topic.settle();
    expect(through()).toBe(1);
    topic.flush();
    source.put();
    await pass(10);
    topic.settle();
    expect(through()).toBe(3);
    source.fail(new NetplugError('store/unavailable', 'Cannot reach the API'));
    await pass(10);
    expect(through()).toBeUndefined();
  });
});
