import { expect, it } from 'vitest';
import { networkOf } from '../../../../../test/contract/suites/dataplane/kernel.ts';
import { MemoryHostNetwork } from '../../../../../test/support/memory/memory-host-network.ts';
import { MemoryKernel } from '../../../../../test/support/memory/memory-kernel.ts';
import { until } from '../../../../../test/support/until.ts';
import { systemClock } from '../../../../base/clock.ts';
import { NetplugError } from '../../../../base/errors.ts';
import { silentLog } from '../../../../base/log.ts';
import { systemRandom } from '../../../../base/random.ts';
import { boundsFor } from '../../../../dataplane/rate-limits.ts';
import { RateBounder } from './bound-rates.ts';

const RATE = 1_250_000;
const OF_RUNTIME = { bytesPerSecond: RATE, burstBytes: 193_273_526, queueBytes: 536_902_161 };
const base = { clock: systemClock, random: systemRandom, log: silentLog };

it('bounds limits that are there and those that come, and says what it cannot bound', async () => {
  const kernel = new MemoryKernel();
  kernel.addNetns('/run/netns/pod');
  const { hostLinkName: link } = networkOf('/run/netns/pod');
  await kernel.apply(networkOf('/run/netns/pod'), new AbortController().signal);
  const host = new MemoryHostNetwork();
  kernel.limitRate(link, { ...OF_RUNTIME, direction: 'ingress' });
  const refusals: Error[] = [];
  const rates = new RateBounder({
    ...base,
    host,
    burstMs: 200,
    rateLimits: {
      listRateLimits: async () => kernel.listRateLimits(),
      boundRate: async (limit, bounds) => {
        const refusal = refusals.pop();
        if (refusal !== undefined) throw refusal;
        await kernel.boundRate(limit, bounds);
      },
    },
  });
  const stop = new AbortController();
  const ended = rates.run(stop.signal);
  const bounded = async (): Promise<readonly string[]> =>
    (await kernel.listRateLimits())
      .filter(({ burstBytes }) => burstBytes === boundsFor(RATE, 200).burstBytes)
      .map(({ direction }) => direction);
  await until(async () => (await bounded()).length === 1, 'the limit that was there is bounded');
  expect(rates.problems()).toEqual([]);

  refusals.push(new NetplugError('kernel/failed', 'the kernel says EPERM'));
  kernel.limitRate(link, { ...OF_RUNTIME, direction: 'egress' });
  host.loseEvents();
  await until(() => rates.problems().length > 0, 'it is a problem');
  expect(rates.problems()).toEqual([expect.stringMatching(/sends 10 Mbit\/s, and 193274 kB at once: .*EPERM/)]);
  host.loseEvents();
  await until(async () => (await bounded()).length === 2, 'the next run bounds it');
  expect(rates.problems()).toEqual([]);
  stop.abort();
  await ended;
});
