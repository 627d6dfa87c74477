import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { lockOf, nodeOf } from '../../../../test/support/fixtures.ts';
import { until } from '../../../../test/support/until.ts';
import { systemClock } from '../../../base/clock.ts';
import type { Log } from '../../../base/log.ts';
import { systemRandom } from '../../../base/random.ts';
import { MemoryDatabase } from '../../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import { keepClusterInformation, newCluster } from '../../../datastore/keep-cluster-information.ts';
import type { Store } from '../../../datastore/store.ts';
import { OrchApi } from '../../../kube/orch-api.ts';
import { CLUSTER_INFORMATION_ID } from '../../../model/cluster-information.ts';
import { controllersSettings } from '../../../config/controllers-settings.ts';
import { createControllerMetrics } from '../metrics.ts';
import { ControllerRun } from '../run-controllers.ts';
import { versionController } from './version-controller.ts';

const never = new AbortController().signal;
const { node: settings } = controllersSettings({}, 'kvv3');

describe('the ClusterInformation, with controllers', () => {
  let store: Store;
  let stop: AbortController;
  let ended: Promise<void>;
  let problems: string[];

  beforeEach(() => {
    store = openMemoryStore(new MemoryDatabase());
    stop = new AbortController();
    ended = Promise.resolve();
    problems = [];
  });
  afterEach(async () => {
    stop.abort();
    await ended;
  });

  function start(): void {
    const note = (_event: string, { problem }: { readonly problem?: unknown } = {}): void => {
      if (typeof problem === 'string') problems.push(problem);
    };
    const log: Log = { debug: note, info: note, warning: note, error: note };
    // It asks the orchestrator nothing.
    const api = new OrchApi({ from: 'file', path: '/nonexistent' });
    const confirmCluster = async (): Promise<void> => Promise.resolve();
    const ports = {
      clock: systemClock,
      random: systemRandom,
      log,
      store,
      api,
      metrics: createControllerMetrics(),
      confirmCluster,
      confirmUnlocked: confirmCluster,
    };
    const run = new ControllerRun({ ...ports, followed: { datastore: store, orchestrator: store } }, [
      { controller: versionController(settings), periodMs: 60_000 },
    ]);
    ended = run.run(stop.signal);
  }

  const cluster = async () => (await store.findResource(CLUSTER_INFORMATION_ID, never))?.spec;
  const agentOf = async (version: string): Promise<void> => {
    await store.createResource({ ...nodeOf(`n-${version}`), spec: { netplugVersion: version } }, never);
  };

  it('is made where no agent has run, and follows the newest release', async () => {
    start();
    await until(async () => (await cluster())?.clusterGUID !== undefined, 'it is made');
    expect(await cluster()).toMatchObject({ clusterType: 'kv', netplugVersion: 'v3.27.0', datastoreReady: true });
    await agentOf('v3.28.1');
    await until(async () => (await cluster())?.netplugVersion === 'v3.28.1', 'it has the newest release');
    expect(problems).toEqual(['the controllers are of release v3.27.0, and v3.28.1 runs in the cluster']);
  });

  it('is restored with its id when it is deleted', async () => {
    const ports = { store, clock: systemClock, random: systemRandom };
    await keepClusterInformation(ports, { version: 'v3.27.0', types: ['kv'], clusterId: 'the-id' }, never);
    await agentOf('v3.27.0');
    start();
    await agentOf('v3.26.0');
    await until(async () => Promise.resolve(problems.length === 1), 'the controllers have observed it');
    await store.deleteResource(CLUSTER_INFORMATION_ID, never);
    await until(async () => (await cluster()) !== undefined, 'it is back');
    expect(await cluster()).toMatchObject({ clusterGUID: 'the-id', netplugVersion: 'v3.27.0' });
  });

  it('gets no new id while agents remember the old one', async () => {
    await agentOf('v3.27.0');
    start();
    await until(async () => Promise.resolve(problems.length === 1), 'it is reported');
    expect(problems[0]).toContain('an agent restores it');
    expect(await cluster()).toBeUndefined();
    await store.createResource({ ...newCluster(), spec: { clusterGUID: 'the-id', datastoreReady: true } }, never);
    await until(async () => (await cluster())?.netplugVersion === 'v3.27.0', 'it is kept again');
    expect(await cluster()).toMatchObject({ clusterGUID: 'the-id' });
  });

  it('is not written while the datastore is locked', async () => {
    await store.createResource(lockOf('locked'), never);
    start();
    await agentOf('v3.28.1');
    await until(async () => Promise.resolve(problems.length === 1), 'the release is noticed');
    expect(await cluster()).toEqual({ datastoreReady: false });
  });
});
