// An upgrade that was paused while another call took over writes no record afterwards.
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { UpgradeSession } from '../../src/apps/ctl/upgrade/open-upgrade.ts';
import { withUpgradeLease } from '../../src/apps/ctl/upgrade/with-upgrade-lease.ts';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { systemRandom } from '../../src/base/random.ts';
import { ApiLease } from '../../src/datastore/orch/api-lease.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import { SYSTEM_NAMESPACE } from '../../src/install/cluster/names.ts';
import type { OrchAccess } from '../../src/kube/access.ts';
import { OrchApi } from '../../src/kube/orch-api.ts';
import { poolOf } from '../support/fixtures.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';

const PAUSE_MS = 10_000;
const LEASE = `/apis/coordination.k8s.io/v1/namespaces/${SYSTEM_NAMESPACE}/leases/netplug-upgrade`;

/** While the process is paused its timers do not fire, and the clock goes on. */
class PausedClock implements Clock {
  #pausedMs = 0;
  readonly now = systemClock.now;
  readonly monotonic = (): number => systemClock.monotonic() + this.#pausedMs;
  readonly sleep: Clock['sleep'] = async (_ms, signal) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(new Error('aborted')), { once: true });
    });

  pause(): void {
    this.#pausedMs += PAUSE_MS;
  }
}

let server: OrchApiServer;
beforeAll(async () => {
  server = await startOrchApiServer();
  await server.call('POST', '/api/v1/namespaces', { body: { metadata: { name: SYSTEM_NAMESPACE } }, besides: [409] });
});
afterAll(async () => server[Symbol.asyncDispose]());

it('refuses every write of a record after another call has taken over during a pause', async () => {
  const clock = new PausedClock();
  const access: OrchAccess = { from: 'file', path: server.kubeconfig };
  const signal = new AbortController().signal;
  await using api = new OrchApi(access, {});
  await using store = openOrchStore(access);
  const ports = {
    clock,
    hostname: 'here',
    random: systemRandom,
    openApi: (_: unknown, fence: (signal: AbortSignal) => Promise<void>) => new OrchApi(access, { fence }),
    openLease: (leaseApi: OrchApi, options: ConstructorParameters<typeof ApiLease>[2]) =>
      new ApiLease(leaseApi, clock, options),
  };
  const session = { api, store, access, context: { ports, signal } } as unknown as UpgradeSession;
  const pools = async (): Promise<readonly string[]> =>
    (await store.listResources('IPPool', signal)).resources.map(({ metadata }) => metadata.name);

  const overtaken = withUpgradeLease(session, async (inner) => {
    const created = await inner.store.createResource(poolOf('before', '10.65.0.0/24'), signal);
    clock.pause();
    await server.call('PATCH', LEASE, {
      type: 'application/merge-patch+json',
      body: { spec: { holderIdentity: 'there_1', leaseTransitions: 7 } },
    });
    const late = [
      inner.store.createResource(poolOf('late', '10.66.0.0/24'), signal),
      inner.store.updateResource({ ...created, metadata: { ...created.metadata, labels: { late: 'yes' } } }, signal),
      inner.store.deleteResource({ kind: 'IPPool', name: 'before' }, signal),
    ];
    for (const { status, reason } of (await Promise.allSettled(late)) as PromiseRejectedResult[])
      expect([status, String(reason)]).toEqual(['rejected', expect.stringContaining('has taken over on there')]);
    expect(inner.context.signal.aborted).toBe(true);
  });
  await expect(overtaken).resolves.toBeUndefined();
  expect(await pools()).toEqual(['before']);
  const [kept] = (await store.listResources('IPPool', signal)).resources;
  expect(kept?.metadata.labels).toBeUndefined();
});
