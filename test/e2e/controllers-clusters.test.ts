// Controllers of two clusters on one etcd.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { isNetplugError } from '../../src/base/errors.ts';
import { CLUSTER_INFORMATION_ID, type ClusterInformation } from '../../src/model/cluster-information.ts';
import { program } from '../support/components.ts';
import { launchControllers, type Replica } from '../support/controllers.ts';
import { type Etcd, startEtcd } from '../support/etcd.ts';
import { here } from '../support/here.ts';
import { type ApiServer, startApiServer } from '../support/kube.ts';
import { until } from '../support/until.ts';
import { NETPLUGCTL } from '../support/built.ts';

const FOREVER = new AbortController().signal;
const LEASE = 'netplug-orch-controllers';
const RECORD = '/netplug/v3/resources/clusterinformations/default';
/** Longer than the pause between two comparisons. */
const COMPARED_MS = 60_000;

const POLICY = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name: 'web', namespace: 'shop' },
  spec: { podSelector: {} },
};

describe('controllers of two clusters on one etcd', () => {
  const scope = new AsyncDisposableStack();
  let etcd: Etcd;
  let [mine, other]: ApiServer[] = [];
  let store: Store;
  let [owner, stranger]: Replica[] = [];
  let [ownUid, otherUid] = ['', ''];

  beforeAll(async () => {
    [etcd, mine, other] = await Promise.all([startEtcd(), startApiServer(), startApiServer()]);
    for (const each of [etcd, mine, other]) scope.use(each);
    const endpoints = { from: 'list', urls: [etcd.url] } as const;
    store = scope.use(openKvStore({ endpoints, keyFile: undefined, certFile: undefined, caCertFile: undefined }));
    const manifest = await readFile(join(import.meta.dirname, '../../manifests/rbac.yaml'), 'utf8');
    for (const each of [mine, other]) await each.apply(manifest);
    await mine.kubectl('create', 'namespace', 'shop');
    [ownUid, otherUid] = [await uidOf(mine), await uidOf(other)];
    owner = await launch('owner', mine);
    await until(async () => hasProfile('shop'), 'the owner works');
  }, 240_000);
  afterAll(async () => scope.disposeAsync());

  const uidOf = async (server: ApiServer): Promise<string> => {
    const { metadata } = (await server.get('namespace', 'kube-system')) as { metadata: { uid: string } };
    return metadata.uid;
  };
  const launch = async (name: string, server: ApiServer): Promise<Replica> => {
    const kubeconfig = await server.kubeconfigFor(await server.tokenFor(`netplug-system/${LEASE}`));
    return scope.use(await launchControllers(name, { kubeconfig, etcdUrl: etcd.url }));
  };
  const hasProfile = async (space: string): Promise<boolean> =>
    (await store.findResource({ kind: 'Profile', name: `kns.${space}` }, FOREVER)) !== undefined;
  const hasPolicy = async (): Promise<boolean> =>
    (await store.findResource({ kind: 'NetworkPolicy', namespace: 'shop', name: 'knp.default.web' }, FOREVER)) !==
    undefined;
  const recorded = async (): Promise<string | undefined> =>
    (await store.findResource(CLUSTER_INFORMATION_ID, FOREVER))?.spec.orchClusterUID;
  /** Controllers write it too. */
  const editInformation = async (
    edit: (spec: ClusterInformation['spec']) => ClusterInformation['spec'],
  ): Promise<void> =>
    until(async () => {
      const found = await store.findResource(CLUSTER_INFORMATION_ID, FOREVER);
      return store.updateResource({ ...found!, spec: edit(found!.spec) }, FOREVER).then(
        () => true,
        (cause: unknown) => {
          if (isNetplugError(cause, 'resource/changed')) return false;
          throw cause;
        },
      );
    }, 'the ClusterInformation is changed');
  const leader = async (): Promise<string | undefined> => store.findLeader?.(LEASE, FOREVER);
  const says = async (replica: Replica | undefined, reason: string): Promise<boolean> => {
    const { status, body } = (await replica?.ask('/readyz')) ?? { status: 0, body: '' };
    return status === 503 && body.includes(reason);
  };
  const isReady = async (replica: Replica | undefined): Promise<boolean> =>
    (await replica?.ask('/readyz'))?.status === 200;
  const etcdctl = async (...words: string[]): Promise<void> => {
    const { status, stderr } = await here.run([program('etcdctl'), '--endpoints', etcd.url, ...words]);
    if (status !== 0) throw new Error(stderr);
  };
  const accept = async (...words: string[]) =>
    here.run([NETPLUGCTL, 'datastore', 'accept-cluster', ...words], {
      env: { KV_ENDPOINTS: etcd.url, ORCHCONFIG: mine?.kubeconfig ?? '' },
    });

  it('of the wrong one leave the lease to those of the right one, and change nothing', async () => {
    expect(await recorded()).toBe(ownUid);
    await owner?.stop();
    stranger = await launch('stranger', other!);
    await until(async () => says(stranger, `it is of cluster ${otherUid}`), 'it says why it waits');
    expect(await leader()).toBeUndefined();
    owner = await launch('owner-again', mine!);
    await mine?.kubectl('create', 'namespace', 'later');
    await until(async () => hasProfile('later'), 'the right one works at once');
    expect(await leader()).toBe('owner-again');
    expect(await hasProfile('shop')).toBe(true);
  });

  it('do not campaign without the right to ask for the cluster', async () => {
    await mine?.kubectl('create', 'serviceaccount', 'powerless', '-n', 'shop');
    const kubeconfig = await mine!.kubeconfigFor(await mine!.tokenFor('shop/powerless'));
    await owner?.stop();
    await using powerless = await launchControllers('powerless', { kubeconfig, etcdUrl: etcd.url });
    await until(async () => says(powerless, 'is forbidden'), 'it says why it waits');
    expect(await leader()).toBeUndefined();
    owner = await launch('owner-thrice', mine!);
    await owner.ready();
    await until(async () => (await leader()) === 'owner-thrice', 'another one leads');
  });

  it('name the cluster in a ClusterInformation that is made anew', async () => {
    await store.deleteResource(CLUSTER_INFORMATION_ID, FOREVER);
    await until(async () => (await recorded()) === ownUid, 'the cluster is named');
    await until(async () => says(stranger, 'it is of cluster'), 'the other one still waits');
    expect(await leader()).toBe('owner-thrice');
  });

  it('stop waiting for the lease when the records are named as those of the other cluster', async () => {
    expect(await recorded()).toBe(ownUid);
    // No leader names a cluster in locked records.
    await editInformation((spec) => {
      const { orchClusterUID: _, ...rest } = spec;
      return { ...rest, datastoreReady: false };
    });
    await until(async () => isReady(stranger), 'the other one waits for the lease', COMPARED_MS);
    await editInformation((spec) => ({ ...spec, datastoreReady: true }));
    await until(async () => (await recorded()) === ownUid, 'the cluster is named');
    await until(async () => says(stranger, 'it is of cluster'), 'the other one does not wait any more');
    expect(await leader()).toBe('owner-thrice');
  });

  it('remove nothing while the ClusterInformation cannot be decoded, and copy what is new', async () => {
    await mine?.apply([POLICY]);
    await until(hasPolicy, 'the policy is copied');
    await etcdctl('put', RECORD, '{no json');
    await until(async () => says(owner, 'Cannot tell which cluster the records are of'), 'the leader says it');
    await until(
      async () => says(stranger, 'Cannot tell which cluster'),
      'the other one does not campaign',
      COMPARED_MS,
    );
    await mine?.kubectl('delete', 'networkpolicy', 'web', '-n', 'shop');
    await until(async () => says(owner, 'policy: Cannot tell which cluster'), 'the deletion is refused');
    await mine?.kubectl('create', 'namespace', 'new');
    await until(async () => hasProfile('new'), 'what is new is copied');
    expect(await hasPolicy()).toBe(true);
    const { stdout } = await here.run([NETPLUGCTL, 'doctor', '--cluster'], { env: { KV_ENDPOINTS: etcd.url } });
    expect(stdout).toContain('controllers/cluster-unknown');
    await etcdctl('del', RECORD);
    await until(async () => (await recorded()) === ownUid, 'the cluster is named again');
    await until(async () => !(await hasPolicy()), 'what was deleted is removed', COMPARED_MS);
    await owner?.ready();
  });

  it('change places when the records are accepted as those of the other cluster', async () => {
    expect(await accept('--uid', otherUid)).toMatchObject({
      status: 0,
      stdout: `the records were those of cluster ${ownUid}, and are now those of cluster ${otherUid}\n`,
    });
    await until(async () => says(owner, `the records are of cluster ${otherUid}`), 'the leader gives up');
    await until(async () => (await leader()) === 'stranger', 'the other one leads', COMPARED_MS);
    await until(async () => !(await hasProfile('shop')), 'it removes what its cluster does not have', COMPARED_MS);
    await stranger?.ready();
    expect(await accept()).toMatchObject({
      status: 0,
      stdout: `the records were those of cluster ${otherUid}, and are now those of cluster ${ownUid}\n`,
    });
    await until(async () => hasProfile('shop'), 'the first one works again', COMPARED_MS);
    await until(async () => says(stranger, 'it is of cluster'), 'the other one waits again');
  }, 300_000);
});
