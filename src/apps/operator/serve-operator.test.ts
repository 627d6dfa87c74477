import { expect, it } from 'vitest';
import { virtualClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { seededRandom } from '../../base/random.ts';
import { NODE_REPORTS } from '../../install/cluster/node-reports.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import type { Collection } from '../../kube/paths.ts';
import type { WatchEvent } from '../../kube/watch.ts';
import { API_VERSION } from '../../model/resource.ts';
import { ObjectVersions } from './object-versions.ts';
import { watchedKinds } from './serve-operator.ts';

const report = (name: string, resourceVersion: string): ApiObject => ({
  apiVersion: API_VERSION,
  kind: 'NodeReport',
  metadata: { name, resourceVersion },
});

it('runs when the number of nodes with errors changes, and not when an agent renews its report', async () => {
  const over = new AbortController();
  const runsAfter: number[] = [];
  let runs = 0;
  const api = {
    async *watch(collection: Collection): AsyncGenerator<WatchEvent> {
      if (collection !== NODE_REPORTS) return;
      const events: readonly WatchEvent[] = [
        { kind: 'all', objects: [report('a', '1')], version: '1' },
        { kind: 'changed', object: report('a', '2'), version: '2' },
        { kind: 'changed', object: report('b', '3'), version: '3' },
        { kind: 'deleted', object: report('a', '4'), version: '4' },
      ];
      for (const event of events) {
        yield await Promise.resolve(event);
        runsAfter.push(runs);
      }
      over.abort();
    },
  } as unknown as OrchApi;
  const ports = { api, log: silentLog, clock: virtualClock(), random: seededRandom(1) };
  await new ObjectVersions(ports, watchedKinds(), () => (runs += 1)).run(over.signal);
  expect(runsAfter).toEqual([1, 1, 2, 3]);
});
