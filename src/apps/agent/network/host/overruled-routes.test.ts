import { beforeEach, describe, expect, it } from 'vitest';
import { MemoryHostNetwork } from '../../../../../test/support/memory/memory-host-network.ts';
import { systemClock, virtualClock } from '../../../../base/clock.ts';
import { silentLog } from '../../../../base/log.ts';
import { seededRandom } from '../../../../base/random.ts';
import type { Overruling } from '../../../../dataplane/overruled-paths.ts';
import { parseAddress } from '../../../../net/address.ts';
import { parseCidr } from '../../../../net/cidr.ts';
import { OverruledRoutes } from './overruled-routes.ts';

const RULE: Overruling = {
  rule: 5270,
  table: 52,
  type: 'unicast',
  destination: parseCidr('0.0.0.0/0'),
  device: 'tailscale0',
  gateway: undefined,
  metric: undefined,
};
let host: MemoryHostNetwork;
let routes: OverruledRoutes;
beforeEach(() => {
  host = new MemoryHostNetwork();
  routes = new OverruledRoutes({ host, clock: virtualClock(0), random: seededRandom(1), log: silentLog });
});

function putPods(count: number): void {
  for (let pod = 1; pod <= count; pod += 1)
    host.putPodLink(`npl${String(pod)}`, [parseAddress(`10.65.${String(pod >> 8)}.${String(pod & 255)}`)]);
}

describe('routes of the node that packets do not take', () => {
  it('are a problem with its cause, which goes with the cause', async () => {
    putPods(3);
    await routes.reconcile();
    expect(routes.problems()).toEqual([]);
    host.overrule(parseCidr('10.65.0.0/16'), RULE);
    await routes.reconcile();
    expect(routes.problems()).toEqual([
      {
        code: 'network/route-overruled',
        severity: 'error',
        text: 'packets to 10.65.0.1 (a pod of this node) and 2 more addresses leave by "tailscale0" in place of "npl1": routing rule 5270 chooses table 52 before the main table, and there route 0.0.0.0/0',
        remedy: expect.stringContaining('ip rule add pref 5269 to RANGE lookup main'),
      },
    ]);
    host.stopOverruling();
    await routes.reconcile();
    expect(routes.problems()).toEqual([]);
  });

  it('are looked up in several runs when they are many, and those of pods that ended are no problem', async () => {
    putPods(600);
    host.overrule(parseCidr('10.65.2.0/24'), RULE);
    const counts: number[] = [];
    for (let run = 0; run < 3; run += 1) {
      await routes.reconcile();
      counts.push(routes.problems().length);
    }
    expect(counts).toEqual([0, 1, 1]);
    for (let pod = 512; pod <= 600; pod += 1) host.removePodLink(`npl${String(pod)}`);
    await routes.reconcile();
    expect(routes.problems()).toEqual([]);
  });

  it('say nothing of what could not be looked up', async () => {
    putPods(1);
    host.overrule(parseCidr('10.65.0.0/16'), RULE);
    const failing = new OverruledRoutes({
      host: {
        listPodLinks: async () => host.listPodLinks(),
        listRoutes: async () => host.listRoutes(),
        findOverruled: async () => Promise.reject(new Error('the kernel says EPERM')),
      },
      clock: systemClock,
      random: seededRandom(1),
      log: silentLog,
    });
    const stop = new AbortController();
    const running = failing.run(stop.signal);
    await expect.poll(() => failing.problems().map(({ code }) => code)).toEqual(['network/behind']);
    stop.abort();
    await running;
  });
});
