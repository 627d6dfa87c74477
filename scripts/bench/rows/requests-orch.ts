// What one pod costs the datastore in the API server, counted by a proxy before it, and what of it a call waits for.
import type { TestNode } from '../../../test/support/node.ts';
import { poolOf } from '../../../test/support/fixtures.ts';
import { type OrchApiServer, startOrchApiServer } from '../../../test/support/orch-datastore.ts';
import { type Fate, startProxy } from '../../../test/support/orch-proxy.ts';
import { openTestbed } from '../testbed.ts';
import { type Attachment, type OtherDatastore, POOL } from '../candidates.ts';
import { inside } from '../inside.ts';
import type { MeasureRow } from '../report.ts';
import { type Datastore, figuresOf, PODS_IN_FLIGHT, requestsPerPod } from '../requests-per-pod.ts';

export const measureRequestsOnOrch: MeasureRow = async ({ candidates }) => {
  const netplugs = candidates.filter((name) => name !== 'ptp');
  await using scope = new AsyncDisposableStack();
  const server = scope.use(await startOrchApiServer());
  await server.apply([poolOf('pods', POOL)]);
  const counter = newCounter();
  const datastore = async (node: TestNode): Promise<OtherDatastore> => {
    await server.putNode(node.name);
    const token = await server.callerToken('agent');
    const proxy = scope.use(await inside(node, async () => startProxy(server, token)));
    proxy.fate = async (method, url) => counter.fate(method, url);
    const orchconfig = await server.kubeconfigFor(server.adminToken, { url: proxy.url });
    return {
      conf: { datastore_type: 'orch', kv_endpoints: undefined, policy: { type: 'orch' }, orch: { orchconfig } },
      env: { DATASTORE_TYPE: 'orch', ORCHCONFIG: orchconfig },
    };
  };
  const testbed = scope.use(await openTestbed({ candidates: netplugs, namespaces: PODS_IN_FLIGHT, datastore }));
  const register: Datastore['register'] = async (pods) => putPods(server, { node: testbed.node.name, pods });
  const measured = await requestsPerPod(testbed, { ...counter, register });
  return { figures: figuresOf('orch', measured) };
};

async function putPods(
  server: OrchApiServer,
  { node, pods }: { node: string; pods: readonly Attachment[] },
): Promise<readonly Attachment[]> {
  const made: Attachment[] = [];
  for (const pod of pods) {
    made.push({ ...pod, podUid: await server.putPod({ namespace: 'default', name: pod.containerId, node }) });
  }
  return made;
}

interface Counter extends Pick<Datastore, 'countRequests' | 'pause'> {
  /** For the proxy; watches are not counted, and go on while it is paused. */
  fate(method: string, url: URL): Promise<Fate>;
}

function newCounter(): Counter {
  let requests = 0;
  let silence = Promise.resolve();
  return {
    countRequests: async () => requests,
    pause: async () => {
      let resume = (): void => undefined;
      silence = new Promise((resolve) => (resume = resolve));
      return async () => {
        resume();
      };
    },
    fate: async (_method, url) => {
      if (url.searchParams.has('watch')) return 'pass';
      requests += 1;
      await silence;
      return 'pass';
    },
  };
}
