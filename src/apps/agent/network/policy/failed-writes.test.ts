import { afterEach, expect, it } from 'vitest';
import { NetplugError } from '../../../../base/errors.ts';
import type { Isolation } from '../../../../cni/pod-isolation.ts';
import { endpointOf, makeHost, stopHosts, type TestHost } from '../../../../../test/support/enforcement-host.ts';

afterEach(stopHosts);

/** Makes the kernel refuse every write. Returns what ends that. */
function refuseWrites(host: TestHost): () => void {
  const open = host.policyFilter;
  host.policyFilter = () => ({
    ...open(),
    apply: async () => Promise.reject(new NetplugError('kernel/failed', 'out of memory')),
  });
  return () => (host.policyFilter = open);
}

it('lets a new pod wait, closed, while the kernel keeps policies and refuses new ones', async () => {
  const host = makeHost();
  const policy = host.start('enforce');
  expect(await policy.isolate(endpointOf('first', 'npl1'))).toEqual({ state: 'in force' });
  const accept = refuseWrites(host);
  let outcome: Isolation | undefined;
  void policy.isolate(endpointOf('second', 'npl2')).then((isolation) => (outcome = isolation));
  for (let second = 0; second < 12; second += 1) await host.clock.pass(1000);
  expect([outcome, host.verdict('npl2')]).toEqual([undefined, 'drop']);
  expect(policy.failures()).toEqual(['policy: out of memory']);
  accept();
  await host.clock.pass(30_000);
  await host.clock.pass(30_000);
  expect([outcome, policy.failures()]).toEqual([{ state: 'in force' }, []]);
});

it('reports a pod as not enforced when the write that should close it fails, although earlier pods are closed', async () => {
  const host = makeHost();
  host.isReadable = false;
  const policy = host.start('on demand');
  await host.clock.pass(0);
  void policy.isolate(endpointOf('first', 'npl1'));
  await host.clock.pass(0);
  expect(await policy.isolate(endpointOf('second', 'npl2'))).toMatchObject({ state: 'closed' });
  refuseWrites(host);
  expect(await policy.isolate(endpointOf('third', 'npl3'))).toEqual({ state: 'not enforced', reason: 'out of memory' });
  expect(['npl1', 'npl2', 'npl3'].map((name) => host.verdict(name))).toEqual(['drop', 'drop', 'accept']);
});

it('reports a pod as closed when a write fails on a host that closes all pods until policies are known', async () => {
  const host = makeHost();
  host.isReadable = false;
  const policy = host.start('enforce');
  await host.clock.pass(0);
  void policy.isolate(endpointOf('first', 'npl1'));
  await host.clock.pass(0);
  refuseWrites(host);
  expect(await policy.isolate(endpointOf('second', 'npl2'))).toMatchObject({ state: 'closed' });
  expect(host.verdict('npl2')).toBe('drop');
});
