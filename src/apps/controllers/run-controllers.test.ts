import { expect, it } from 'vitest';
import { until } from '../../../test/support/until.ts';
import { systemClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import { controllersSettings } from '../../config/controllers-settings.ts';
import { openMemoryStore } from '../../datastore/memory/memory-store.ts';
import { OrchApi } from '../../kube/orch-api.ts';
import type { Controller } from './controller.ts';
import { createControllerMetrics } from './metrics.ts';
import { versionController } from './node/version-controller.ts';
import { ControllerRun } from './run-controllers.ts';

it('a controller compares everything once each period', async () => {
  const store = openMemoryStore();
  const stop = new AbortController();
  const runs: boolean[] = [];
  const controller: Controller = {
    ...versionController(controllersSettings({}, 'kvv3').node),
    start: () => ({
      note: () => false,
      reconcile: async ({ isFull }) => void runs.push(await Promise.resolve(isFull)),
    }),
  };
  const ports = {
    clock: systemClock,
    random: systemRandom,
    log: silentLog,
    store,
    api: new OrchApi({ from: 'file', path: '/nonexistent' }),
    metrics: createControllerMetrics(),
    confirmCluster: async () => Promise.resolve(),
    confirmUnlocked: async () => Promise.resolve(),
  };
  const followed = { datastore: store, orchestrator: store };
  const ended = new ControllerRun({ ...ports, followed }, [{ controller, periodMs: 50 }]).run(stop.signal);
  await until(async () => Promise.resolve(runs.length >= 40), 'forty periods have passed');
  stop.abort();
  await ended;
  // The first run may be repeated within its period, for what was observed meanwhile.
  expect(runs.filter((isFull) => !isFull).length).toBeLessThanOrEqual(2);
});
