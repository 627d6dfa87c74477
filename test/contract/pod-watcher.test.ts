import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { systemRandom } from '../../src/base/random.ts';
import { silentLog } from '../../src/base/log.ts';
import { OrchApi } from '../../src/kube/orch-api.ts';
import { type PodName, PodWatcher } from '../../src/kube/pod-watcher.ts';
import { readPodFacts } from '../../src/kube/read-facts.ts';
import { Http2Transport } from '../../src/kube/http2-transport.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { until } from '../support/until.ts';

const never = new AbortController().signal;
const MERGE = 'application/merge-patch+json';

describe('cached pods', () => {
  let server: OrchApiServer;
  let api: OrchApi;
  let watcher: PodWatcher;
  let running: Promise<void>;
  const ending = new AbortController();
  const asked: string[] = [];
  const transport = new Http2Transport();

  beforeAll(async () => {
    server = await startOrchApiServer();
    const path = await server.callerConfig('agent');
    api = new OrchApi({ from: 'file', path }, { onRequest: (what) => asked.push(what), transport });
    watcher = new PodWatcher('n1', { api, clock: systemClock, random: systemRandom, log: silentLog });
    running = watcher.run(ending.signal);
  });
  beforeEach(async () => server.empty());
  afterAll(async () => {
    ending.abort();
    await running;
    await api?.[Symbol.asyncDispose]();
    transport.close();
    await server?.[Symbol.asyncDispose]();
  });

  const put = async (name: string): Promise<PodName> => {
    const namespace = 'shop';
    return { namespace, name, uid: await server.putPod({ namespace, name, node: 'n1', labels: { app: name } }) };
  };
  /** How many times the API is asked for it. */
  const cost = async (pod: PodName): Promise<number> => {
    asked.length = 0;
    await watcher.readPod(pod, never);
    return asked.filter((what) => what.startsWith('get')).length;
  };
  const isWarm = async (pod: PodName): Promise<void> => until(async () => (await cost(pod)) === 0, 'the pod is known');
  const path = ({ namespace, name }: PodName): string => `/api/v1/namespaces/${namespace}/pods/${name}`;

  it('are served from the cache, as the API returns them', async () => {
    const pod = await put('web');
    await isWarm(pod);
    expect(await watcher.readPod(pod, never)).toEqual(await readPodFacts(api, pod, never));
    expect(await cost(pod)).toBe(0);
  });

  it('are read from the API for a call with another uid, or none', async () => {
    const pod = await put('web');
    await isWarm(pod);
    expect(await cost({ ...pod, uid: undefined })).toBe(2);
    expect(await cost({ ...pod, uid: 'another' })).toBe(2);
  });

  it('are not served for a new pod of the same name', async () => {
    const pod = await put('web-0');
    await isWarm(pod);
    await server.call('DELETE', `${path(pod)}?gracePeriodSeconds=0`);
    const next = await put('web-0');
    expect((await watcher.readPod(next, never)).uid).toBe(next.uid);
    await isWarm(next);
    expect((await watcher.readPod(pod, never)).uid).toBe(next.uid);
  });

  it('are read from the API while they are being deleted, and not found after that', async () => {
    const pod = await put('web');
    await isWarm(pod);
    await server.call('DELETE', path(pod));
    await until(async () => (await cost(pod)) === 2, 'the deletion is known');
    await server.call('DELETE', `${path(pod)}?gracePeriodSeconds=0`);
    await expect(watcher.readPod(pod, never)).rejects.toMatchObject({ code: 'orch/not-found' });
  });

  it('have the newest annotations, their own and their namespace’s', async () => {
    const pod = await put('web');
    await isWarm(pod);
    const annotate = { type: MERGE, body: { metadata: { annotations: { 'cni.netplug/ipv4pools': '["blue"]' } } } };
    await server.call('PATCH', path(pod), annotate);
    await server.call('PATCH', '/api/v1/namespaces/shop', annotate);
    await until(async () => {
      const { annotations, namespaceAnnotations } = await watcher.readPod(pod, never);
      return [annotations, namespaceAnnotations].every((each) => each['cni.netplug/ipv4pools'] === '["blue"]');
    }, 'the annotations are known');
    expect(await cost(pod)).toBe(0);
  });

  it('are not served while the API server is unavailable, and again when it is back', async () => {
    const pod = await put('web');
    await isWarm(pod);
    await server.stop();
    await until(
      async () =>
        watcher.readPod(pod, AbortSignal.timeout(300)).then(
          () => false,
          () => true,
        ),
      'the loss is noticed',
    );
    await server.start();
    await isWarm(pod);
    expect(await cost(pod)).toBe(0);
  });
});
