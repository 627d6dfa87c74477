import { describe, expect, it } from 'vitest';
import { callCtl, type CtlWorld, type Ran } from '../../../../test/support/ctl.ts';
import { newCluster } from '../../../datastore/keep-cluster-information.ts';
import { MemoryDatabase } from '../../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import { CLUSTER_INFORMATION_ID } from '../../../model/cluster-information.ts';

const never = new AbortController().signal;

const on = async (database: MemoryDatabase, words: string, world: CtlWorld = {}): Promise<Ran> =>
  callCtl(words.split(' '), {
    env: { KV_ENDPOINTS: 'http://127.0.0.1:1' },
    openStore: () => openMemoryStore(database),
    ...world,
  });

const clusterOf = async (database: MemoryDatabase): Promise<unknown> =>
  (await openMemoryStore(database).findResource(CLUSTER_INFORMATION_ID, never))?.spec;

describe('datastore accept-cluster', () => {
  const [first, second] = ['11111111-2222-3333-4444-555555555555', '3f0c7a52-e5b1-4f0c-9d7a-3b8de6c1a2f4'];

  it('notes the named cluster, and nothing else', async () => {
    const source = new MemoryDatabase();
    const spec = { clusterGUID: 'abc', orchClusterUID: first, datastoreReady: true };
    await openMemoryStore(source).createResource({ ...newCluster(), spec }, never);
    expect(await on(source, `datastore accept-cluster --uid ${second}`)).toMatchObject({
      status: 0,
      out: `the records were those of cluster ${first}, and are now those of cluster ${second}\n`,
    });
    expect(await clusterOf(source)).toEqual({ ...spec, orchClusterUID: second });
    expect(await on(source, `datastore accept-cluster --uid ${second}`)).toMatchObject({
      status: 0,
      out: `the records were already those of cluster ${second}\n`,
    });
  });

  it('notes it where there is no ClusterInformation yet', async () => {
    const source = new MemoryDatabase();
    const { out } = await on(source, `datastore accept-cluster --uid ${second}`);
    expect(out).toBe(`the records were those of no cluster, and are now those of cluster ${second}\n`);
    expect(await clusterOf(source)).toEqual({ orchClusterUID: second, datastoreReady: true });
  });

  it.each(['kube-system', second.toUpperCase(), `${second}0`, '-'])('refuses "%s" as a uid', async (uid) => {
    const source = new MemoryDatabase();
    const refused = await on(source, `datastore accept-cluster --uid ${uid}`);
    expect(refused).toMatchObject({ status: 64, out: '' });
    expect(refused.err).toContain('allowed is the uid of a namespace');
    expect(await clusterOf(source)).toBeUndefined();
  });

  it('is refused while the datastore is locked, and on the API', async () => {
    const [source, target] = [new MemoryDatabase(), new MemoryDatabase()];
    await on(source, 'datastore lock');
    const locked = await on(source, `datastore accept-cluster --uid ${second}`);
    expect(locked).toMatchObject({ status: 75, err: expect.stringContaining('locked for maintenance') as string });
    const env = { DATASTORE_TYPE: 'orch', ORCHCONFIG: '/etc/netplug/kubeconfig' };
    const onApi = await on(target, `datastore accept-cluster --uid ${second}`, { env });
    expect(onApi).toMatchObject({ status: 64, err: expect.stringContaining('in the API of their cluster') as string });
    expect(await clusterOf(target)).toBeUndefined();
  });

  it('needs a kubeconfig where no uid is given', async () => {
    expect(await on(new MemoryDatabase(), 'datastore accept-cluster')).toMatchObject({
      err: expect.stringContaining('Cannot reach the API of the cluster: KUBECONFIG is not set') as string,
    });
  });
});
