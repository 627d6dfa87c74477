import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { openEtcdLease } from '../../src/datastore/kv/etcd-lease.ts';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import { ApiLease } from '../../src/datastore/orch/api-lease.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { OrchApi } from '../../src/kube/orch-api.ts';
import type { AnyResource } from '../../src/model/kinds.ts';
import type { LeaderLease } from '../../src/runtime/leader-lease.ts';
import { startEtcd } from '../support/etcd.ts';
import { startApiServer } from '../support/kube.ts';
import { until } from '../support/until.ts';

const FOREVER = new AbortController().signal;
/** Long enough for some requests of a busy machine. */
const DURATION_MS = 6000;
/** Of a process that does not notice that it was paused. */
const STOPPED: Clock = { ...systemClock, monotonic: () => 0 };

interface Candidate {
  readonly lease: LeaderLease;
  readonly store: Store;
}

const set = (name: string): AnyResource => ({
  apiVersion: 'netplug.io/v3',
  kind: 'GlobalNetworkSet',
  metadata: { name },
  spec: { nets: ['10.0.0.0/8'] },
});

const scope = new AsyncDisposableStack();
const candidates = new Map<string, (holder: string, clock?: Clock) => Candidate>();

beforeAll(async () => {
  const etcd = scope.use(await startEtcd());
  const server = scope.use(await startApiServer());
  await server.apply(await readFile(join(import.meta.dirname, '../../manifests/crds.yaml'), 'utf8'));
  await server.kubectl('wait', '--for=condition=Established', '--timeout=30s', 'crd', '--all');
  const endpoints = { from: 'list', urls: [etcd.url] } as const;
  const connection = { endpoints, keyFile: undefined, certFile: undefined, caCertFile: undefined };
  candidates.set('etcd', (holder) => {
    const lease = scope.use(openEtcdLease(connection, { name: 'work', holder, durationMs: DURATION_MS }));
    return { lease, store: scope.use(openKvStore(connection, { fence: () => lease.held })) };
  });
  candidates.set('the API', (holder, clock = systemClock) => {
    const access = { from: 'file', path: server.kubeconfig } as const;
    const options = { namespace: 'default', name: 'work', holder, durationMs: DURATION_MS };
    const lease = new ApiLease(scope.use(new OrchApi(access)), clock, options);
    return { lease, store: scope.use(openOrchStore(access, { fence: async (signal) => lease.confirm(signal) })) };
  });
});
afterAll(async () => scope.disposeAsync());

describe.each(['etcd', 'the API'])('a store behind the fence of a leader on %s', (where) => {
  const candidate = (holder: string, clock?: Clock): Candidate => candidates.get(where)!(holder, clock);

  it('writes while the lease is held, and nothing from then on, also when the process does not know', async () => {
    const [one, other] = [candidate('one', STOPPED), candidate('other')];
    await expect(one.store.createResource(set('early'), FOREVER)).rejects.toMatchObject({ code: 'store/not-leader' });
    expect(await one.lease.hold(FOREVER)).toBe(true);
    const made = await one.store.createResource(set('mine'), FOREVER);
    await expect(one.store.createResource(set('mine'), FOREVER)).rejects.toMatchObject({ code: 'resource/exists' });
    const gone = { kind: 'GlobalNetworkSet', name: 'nothing' } as const;
    await expect(one.store.deleteResource(gone, FOREVER)).rejects.toMatchObject({ code: 'resource/not-found' });

    await until(async () => other.lease.hold(FOREVER), 'the other leads');
    const changed = { ...made, metadata: { ...made.metadata, labels: { late: 'yes' } } };
    const late = [
      async () => one.store.createResource(set('late'), FOREVER),
      async () => one.store.updateResource(changed, FOREVER),
      async () => one.store.deleteResource({ kind: 'GlobalNetworkSet', name: 'mine' }, FOREVER),
    ];
    for (const write of late) await expect(write()).rejects.toMatchObject({ code: 'store/not-leader' });
    const { resources } = await other.store.listResources('GlobalNetworkSet', FOREVER);
    expect(resources.map(({ metadata }) => [metadata.name, metadata.labels])).toEqual([['mine', undefined]]);
    await other.store.deleteResource({ kind: 'GlobalNetworkSet', name: 'mine' }, FOREVER);
    await other.lease.release(FOREVER);
  });

  it('writes nothing of an earlier leadership in a later one of another process of the same name', async () => {
    const [one, next] = [candidate('same', STOPPED), candidate('between')];
    await until(async () => one.lease.hold(FOREVER), 'the first leads');
    await sleep(DURATION_MS);
    await until(async () => next.lease.hold(FOREVER), 'another leads');
    await next.lease.release(FOREVER);
    const again = candidate('same');
    await until(async () => again.lease.hold(FOREVER), 'a new process leads');
    await expect(one.store.createResource(set('late'), FOREVER)).rejects.toMatchObject({ code: 'store/not-leader' });
    await again.lease.release(FOREVER);
  });
});
