import { afterEach, expect, it } from 'vitest';
import { poolOf } from '../../../../test/support/fixtures.ts';
import { hostAt, startNode, stopNodes, worldWith } from '../../../../test/support/networked-node.ts';
import { systemClock } from '../../../base/clock.ts';
import { NetplugError } from '../../../base/errors.ts';
import type { Store } from '../../../datastore/store.ts';
import type { FollowEvent } from '../../../datastore/follow.ts';
import { overriding } from '../../../../test/support/overriding.ts';
import { until } from '../../../../test/support/until.ts';

const never = new AbortController().signal;

afterEach(stopNodes);

it('backs off between lists of the cluster while the agent is allowed to list but not to watch', async () => {
  const { store } = await worldWith(poolOf('v4', '10.65.0.0/16', { vxlanMode: 'Always' }));
  let listings = 0;
  async function* list(...asked: Parameters<Store['follow']>): AsyncGenerator<FollowEvent> {
    listings += 1;
    for await (const event of store.follow(...asked)) {
      yield event;
      throw new NetplugError('store/refused', 'Cannot watch: the user has no rights', { hint: 'None' });
    }
  }
  startNode('a', { store: overriding(store, { follow: list }), host: hostAt('192.0.2.1/24') });
  const startMs = systemClock.monotonic();
  await systemClock.sleep(3000, never);
  const [seconds, counted] = [(systemClock.monotonic() - startMs) / 1000, listings];
  // Pauses of 100, 200, 400, 800, 1600 and then 2000 ms, of which up to half is left out.
  expect(counted).toBeLessThan(5 + seconds);
  await until(() => listings > 1, 'the node is listed again');
});
