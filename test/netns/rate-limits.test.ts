// Limits of rates as the standard plugin makes them, and real transfers through them.
import { expect, it } from 'vitest';
import { RateBounder } from '../../src/apps/agent/network/host/bound-rates.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import { linuxHostNetwork } from '../../src/dataplane/linux/host-network.ts';
import { linuxKernel } from '../../src/dataplane/linux/linux-kernel.ts';
import { boundsFor, neededBounds } from '../../src/dataplane/rate-limits.ts';
import { limitedNetwork, rateLimitsContract } from '../contract/suites/dataplane/rate-limits.ts';
import { callBandwidth } from '../support/bandwidth.ts';
import { here } from '../support/here.ts';
import { enterNetns, newNetns, type TestNetns } from '../support/netns.ts';
import { until } from '../support/until.ts';

const never = new AbortController().signal;
const HOST_ADDRESS = '192.0.2.1';
const MBIT = 1_000_000;

rateLimitsContract('linux', async () => {
  const scope = new AsyncDisposableStack();
  const host = scope.use(await enteredHost());
  return {
    kernel: linuxKernel(),
    newPod: async () => scope.use(await newNetns()).path,
    limit: async (network, { bytesPerSecond, burstBytes }) => {
      const [rate, burst] = [8 * bytesPerSecond, 8 * burstBytes];
      const bandwidth = { ingressRate: rate, ingressBurst: burst, egressRate: rate, egressBurst: burst };
      await callBandwidth(host, 'ADD', { network, bandwidth });
    },
    [Symbol.asyncDispose]: async () => scope.disposeAsync(),
  };
});

const RATE = 20 * MBIT;

it.each([
  ['containerd', 2 ** 32 - 1, true],
  ['CRI-O', 8 * (2 ** 32 - 1) - 1, true],
  ['netplug', 8 * boundsFor(RATE / 8, 100).burstBytes, false],
])(
  'a pod keeps to its rate from the first megabytes on, in both directions, with the burst that %s passes, and CHECK of the plugin agrees [ann-bandwidth]',
  async (_, burst, isBounded) => {
    await using host = await enteredHost();
    await using pod = await newNetns();
    const kernel = linuxKernel();
    const network = limitedNetwork(pod.path);
    await kernel.apply(network, never);
    const bandwidth = { ingressRate: RATE, ingressBurst: burst, egressRate: RATE, egressBurst: burst };

    const seen = new Set<string>();
    using _watch = linuxHostNetwork().watch(({ kind }) => seen.add(kind));
    const stop = new AbortController();
    const base = { clock: systemClock, random: systemRandom, log: silentLog };
    const rates = new RateBounder({ ...base, host: linuxHostNetwork(), rateLimits: kernel, burstMs: 100 });
    const ended = rates.run(stop.signal);
    await until(() => rates.problems().length === 0, 'it has looked at a host without limits');
    await callBandwidth(host, 'ADD', { network, bandwidth });
    await until(async () => {
      const limits = await kernel.listRateLimits();
      return limits.length === 2 && limits.every((limit) => neededBounds(limit, 100) === undefined);
    }, 'both limits have a sane burst');
    expect((await kernel.listRateLimits()).map((limit) => limit.isBounded)).toEqual([isBounded, isBounded]);
    expect([...seen]).toContain('rate-limits');
    // The kernel keeps the bounds.
    stop.abort();
    await ended;

    await callBandwidth(host, 'CHECK', { network, bandwidth });
    const elapsed = {
      ingress: await transferMs({ from: host, to: pod, address: '10.65.0.1' }),
      egress: await transferMs({ from: pod, to: host, address: HOST_ADDRESS }),
    };
    // 2.5 MB take a second, of which a tenth passes at once.
    for (const ms of Object.values(elapsed)) {
      expect(ms).toBeGreaterThan(850);
      expect(ms).toBeLessThan(10_000);
    }
    await callBandwidth(host, 'DEL', { network, bandwidth });
    expect((await host.ip('link')).filter(({ ifname }) => String(ifname).startsWith('bwp'))).toEqual([]);
  },
);

it('a limit with a peak rate that a person has set is left alone', async () => {
  await using host = await enteredHost();
  await using pod = await newNetns();
  const kernel = linuxKernel();
  const network = limitedNetwork(pod.path);
  await kernel.apply(network, never);
  const words = 'rate 10mbit burst 100mb latency 50ms peakrate 40mbit minburst 2000';
  await host.exec('tc', 'qdisc', 'add', 'dev', network.hostLinkName, 'root', 'tbf', ...words.split(' '));
  expect(await kernel.listRateLimits()).toEqual([]);
});

/** A host with an address of its own, in which the test runs until the end of the scope. */
async function enteredHost(): Promise<TestNetns> {
  const host = await newNetns();
  const inside = enterNetns(host);
  await host.addAddress(`${HOST_ADDRESS}/32`, 'lo');
  return {
    ...host,
    [Symbol.asyncDispose]: async () => {
      inside.leave();
      await host[Symbol.asyncDispose]();
    },
  };
}

/** Sends 2.5 MB and returns the time until the last of them has arrived. */
async function transferMs({
  from,
  to,
  address,
}: {
  readonly from: TestNetns;
  readonly to: TestNetns;
  readonly address: string;
}): Promise<number> {
  const receiver = await here.start(['nsenter', `--net=${to.path}`, 'sh', '-c', 'nc -l 5001 | wc -c']);
  await until(async () => (await to.exec('ss', '-Hltn')).includes(':5001 '), 'nc listens');
  const startedMs = performance.now();
  await from.exec('sh', '-c', `head -c 2500000 /dev/zero | nc -N ${address} 5001`);
  await receiver.ended;
  const ms = performance.now() - startedMs;
  expect(receiver.log().trim()).toBe('2500000');
  return ms;
}
