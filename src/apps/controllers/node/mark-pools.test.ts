import { isDeepStrictEqual } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { cannedApi } from '../../../../test/support/canned-api.ts';
import { nodeOf, poolOf } from '../../../../test/support/fixtures.ts';
import { until } from '../../../../test/support/until.ts';
import { NetplugError } from '../../../base/errors.ts';
import { systemClock } from '../../../base/clock.ts';
import { silentLog } from '../../../base/log.ts';
import { systemRandom } from '../../../base/random.ts';
import { controllersSettings } from '../../../config/controllers-settings.ts';
import { MemoryDatabase } from '../../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import type { Store } from '../../../datastore/store.ts';
import { markOf, overlapStatus } from '../../../model/ip-pool-status.ts';
import type { Node } from '../../../model/node.ts';
import { createControllerMetrics } from '../metrics.ts';
import { ControllerRun } from '../run-controllers.ts';
import { poolMarkController } from './mark-pools.ts';

const never = new AbortController().signal;
const SERVICE_CIDRS = '/apis/networking.k8s.io/v1/servicecidrs';
const NONE = { metadata: { resourceVersion: '1' }, items: [] };

const onNetwork = (name: string, bgp: NonNullable<Node['spec']['bgp']>): Node => ({ ...nodeOf(name), spec: { bgp } });

describe.each(['orch', 'kvv3'] as const)('the marks of pools, on %s', (datastore) => {
  const { node: settings } = controllersSettings({}, datastore);
  let store: Store;
  let orchestrator: Store;
  let answers: Record<string, object | number | 'unserved'>;
  let locked: boolean;
  let stop: AbortController;
  let ended: Promise<void>;

  beforeEach(() => {
    store = openMemoryStore(new MemoryDatabase());
    // On the API, the orchestrator is the datastore.
    orchestrator = datastore === 'orch' ? store : openMemoryStore(new MemoryDatabase());
    answers = { [SERVICE_CIDRS]: NONE };
    locked = false;
    stop = new AbortController();
    ended = Promise.resolve();
  });
  afterEach(async () => {
    stop.abort();
    await ended;
  });

  function start(periodMs = 60_000): void {
    const ports = {
      clock: systemClock,
      random: systemRandom,
      log: silentLog,
      store,
      api: cannedApi(answers),
      metrics: createControllerMetrics(),
      confirmCluster: async (): Promise<void> => Promise.resolve(),
      confirmUnlocked: async (): Promise<void> => {
        if (locked) throw new NetplugError('store/locked', 'locked', { hint: 'wait' });
        await Promise.resolve();
      },
    };
    const controller = { ...poolMarkController(settings), periodMs };
    const run = new ControllerRun({ ...ports, followed: { datastore: store, orchestrator } }, [
      { controller, periodMs },
    ]);
    ended = run.run(stop.signal);
  }

  const marks = async (): Promise<Record<string, string | undefined>> => {
    const { resources } = await store.listResources('IPPool', never);
    return Object.fromEntries(resources.map(({ metadata, status }) => [metadata.name, markOf(status)?.message]));
  };
  const expectMarks = async (wanted: Record<string, string | undefined>): Promise<void> => {
    await until(async () => isDeepStrictEqual(await marks(), wanted), 'the marks are written').catch(() => undefined);
    expect(await marks()).toEqual(wanted);
  };

  it('come and go with networks of nodes, ranges of Services and older pools, of both families', async () => {
    answers[SERVICE_CIDRS] = {
      ...NONE,
      items: [{ metadata: { name: 'k' }, spec: { cidrs: ['10.96.0.0/16', 'fd00:96::/108'] } }],
    };
    await store.createResource(onNetwork('a', { ipv4Address: '172.20.0.5/16', ipv6Address: 'fd00:20::5/64' }), never);
    for (const [name, cidr] of [
      ['free', '10.244.0.0/16'],
      ['node4', '172.20.3.0/24'],
      ['node6', 'fd00:20::/48'],
      ['services4', '10.96.128.0/24'],
      ['services6', 'fd00:96::/112'],
    ] as const)
      await store.createResource(poolOf(name, cidr), never);
    start(50);
    await expectMarks({
      free: undefined,
      node4: 'it overlaps 172.20.0.0/16, the network of node "a"',
      node6: 'it overlaps fd00:20::/64, the network of node "a"',
      services4: 'it overlaps 10.96.0.0/16, a range of Services',
      services6: 'it overlaps fd00:96::/108, a range of Services',
    });
    await store.createResource(poolOf('part', '10.244.7.0/24'), never);
    await until(
      async () => (await marks())['part'] === 'it overlaps the older pool "free"',
      'the younger pool is marked',
    );
    await store.deleteResource({ kind: 'IPPool', name: 'free' }, never);
    await store.deleteResource({ kind: 'Node', name: 'a' }, never);
    answers[SERVICE_CIDRS] = NONE;
    await expectMarks({
      node4: undefined,
      node6: undefined,
      part: undefined,
      services4: undefined,
      services6: undefined,
    });
  });

  it('come with a node that comes later, and are restored when a user has changed them', async () => {
    await store.createResource(poolOf('pods', '10.244.0.0/16'), never);
    start();
    await orchestrator.createResource(
      { ...nodeOf('late'), spec: { addresses: [{ address: '10.244.9.9', type: 'InternalIP' }] } },
      never,
    );
    const wanted = { pods: 'it overlaps 10.244.9.9/32, the address of node "late"' };
    await expectMarks(wanted);
    for (const status of [undefined, overlapStatus('nothing', '2026-01-01T00:00:00Z')]) {
      const pool = await store.findResource({ kind: 'IPPool', name: 'pods' }, never);
      await store.setPoolStatus({ name: 'pods', resourceVersion: pool?.metadata.resourceVersion ?? '' }, status, never);
      await expectMarks(wanted);
    }
  });

  it('need no ranges of Services, which an API server without the kind is not asked for again and again', async () => {
    let asked = 0;
    Object.defineProperty(answers, SERVICE_CIDRS, { get: () => ((asked += 1), 'unserved') });
    await store.createResource(poolOf('pods', '10.244.0.0/16'), never);
    await store.createResource(onNetwork('a', { ipv4Address: '10.0.0.5/8' }), never);
    start(20);
    await expectMarks({ pods: 'it overlaps 10.0.0.0/8, the network of node "a"' });
    await until(async () => Promise.resolve(asked > 1), 'the watch has begun');
    const before = asked;
    await systemClock.sleep(200, never);
    expect(asked).toBe(before);
  });

  it('stay as they are while the datastore is locked, and while ranges of Services cannot be read', async () => {
    await store.createResource(poolOf('pods', '10.244.0.0/16'), never);
    await store.createResource(onNetwork('a', { ipv4Address: '10.0.0.5/8' }), never);
    locked = true;
    answers[SERVICE_CIDRS] = 403;
    start(50);
    await systemClock.sleep(200, never);
    expect(await marks()).toEqual({ pods: undefined });
    answers[SERVICE_CIDRS] = NONE;
    await systemClock.sleep(200, never);
    expect(await marks()).toEqual({ pods: undefined });
    locked = false;
    await expectMarks({ pods: 'it overlaps 10.0.0.0/8, the network of node "a"' });
  });
});
