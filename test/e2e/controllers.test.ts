import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { endpointName, type WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { launchControllers, type Replica } from '../support/controllers.ts';
import { type Etcd, startEtcd } from '../support/etcd.ts';
import { type ApiServer, startApiServer } from '../support/kube.ts';
import { until } from '../support/until.ts';

const FOREVER = new AbortController().signal;
const OWN = { 'netplug/created-by': 'netplug-orch-controllers' };

let etcd: Etcd;
let api: ApiServer;
let store: Store;
let replica: Replica;

beforeAll(async () => {
  [etcd, api] = await Promise.all([startEtcd(), startApiServer()]);
  await api.apply(await readFile(join(import.meta.dirname, '../../manifests/rbac.yaml'), 'utf8'));
  store = openKvStore({
    endpoints: { from: 'list', urls: [etcd.url] },
    keyFile: undefined,
    certFile: undefined,
    caCertFile: undefined,
  });
  await api.kubectl('create', 'namespace', 'shop');
  const kubeconfig = await api.kubeconfigFor(await api.tokenFor('netplug-system/netplug-orch-controllers'));
  replica = await launchControllers('one', { kubeconfig, etcdUrl: etcd.url });
  await replica.ready();
  await until(async () => replica.isLeading(), 'it leads');
});

afterAll(async () => {
  await replica?.[Symbol.asyncDispose]();
  await store?.[Symbol.asyncDispose]();
  await etcd?.[Symbol.asyncDispose]();
  await api?.[Symbol.asyncDispose]();
});

const profile = async (name: string) => store.findResource({ kind: 'Profile', name }, FOREVER);
const policy = async (name: string) => store.findResource({ kind: 'NetworkPolicy', namespace: 'shop', name }, FOREVER);

const KUBERNETES_POLICY = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name: 'web', namespace: 'shop' },
  spec: {
    podSelector: { matchLabels: { app: 'web' } },
    ingress: [{ from: [{ podSelector: { matchLabels: { app: 'db' } } }], ports: [{ port: 80 }] }],
  },
};

describe('controllers on etcd', () => {
  it('mirror namespaces, service accounts and policies, and follow their changes', async () => {
    await until(async () => (await profile('kns.shop')) !== undefined, 'the profile of the namespace is there');
    await api.kubectl('label', 'namespace', 'shop', 'team=a');
    await api.kubectl('create', 'serviceaccount', 'till', '-n', 'shop');
    await api.apply([KUBERNETES_POLICY]);
    await until(async () => (await policy('knp.default.web')) !== undefined, 'the policy is there');
    expect((await policy('knp.default.web'))?.spec).toMatchObject({
      order: 1000,
      selector: "netplug/orchestrator == 'orch' && app == 'web'",
      types: ['Ingress'],
    });
    await until(
      async () => (await profile('kns.shop'))?.spec.labelsToApply?.['pcns.team'] === 'a',
      'the label is in the profile',
    );
    await until(async () => (await profile('ksa.shop.till')) !== undefined, 'the account has its profile');
    expect((await profile('kns.shop'))?.metadata.labels).toEqual(OWN);
    await api.kubectl('delete', 'networkpolicy', 'web', '-n', 'shop');
    await until(async () => (await policy('knp.default.web')) === undefined, 'the policy is gone');
  });

  it('repair what is their own, and leave what people made', async () => {
    const before = await profile('kns.shop');
    await store.deleteResource({ kind: 'Profile', name: 'kns.shop' }, FOREVER);
    await until(async () => (await profile('kns.shop')) !== undefined, 'the profile is back');
    const { resourceVersion: _, ...metadata } = before!.metadata;
    await store.updateResource({ ...before!, metadata, spec: { ingress: [{ action: 'Deny' }] } }, FOREVER);
    await until(async () => (await profile('kns.shop'))?.spec.egress !== undefined, 'the profile is as before');
    const foreign = { ...before!, metadata: { name: 'kns.mine' }, spec: { ingress: [{ action: 'Deny' as const }] } };
    await store.createResource(foreign, FOREVER);
    await api.kubectl('create', 'namespace', 'mine');
    await until(
      async () => (await replica.metric('netplug_controllers_problems{controller="profile"}')) === 1,
      'the collision is reported',
    );
    expect((await profile('kns.mine'))?.spec.egress).toBeUndefined();
    await until(() => replica.log().includes('Profile \\"kns.mine\\" is left as it is'), 'the reason is logged');
  });

  it('keep labels, account and ports of endpoints as those of their pods, and nothing else', async () => {
    const pod = (labels: object, node = 'node-a') => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'web-1', namespace: 'shop', labels },
      spec: {
        nodeName: node,
        serviceAccountName: 'till',
        containers: [{ name: 'web', image: 'web', ports: [{ name: 'http', containerPort: 80 }] }],
      },
    });
    await api.apply([pod({ app: 'web' })]);
    const { metadata } = (await api.get('pod', 'web-1', '-n', 'shop')) as { metadata: { uid: string } };
    const endpoint = endpointOf('web-1', metadata.uid, ['kns.shop', 'ksa.shop.default']);
    const unmanaged = endpointOf('web-2', metadata.uid, ['a-network']);
    await store.commit(
      [endpoint, unmanaged].map((each) => ({ kind: 'put-endpoint' as const, endpoint: each })),
      FOREVER,
    );
    const stored = async (name: string) => {
      const { endpoints } = await store.listEndpoints(undefined, FOREVER);
      return endpoints.map(({ value }) => value).find((value) => value.spec.pod === name);
    };
    await until(async () => (await stored('web-1'))?.spec.serviceAccountName === 'till', 'the account is corrected');
    expect(await stored('web-1')).toEqual({
      ...endpoint,
      metadata: {
        ...endpoint.metadata,
        labels: {
          app: 'web',
          'netplug/namespace': 'shop',
          'netplug/orchestrator': 'orch',
          'netplug/serviceaccount': 'till',
        },
      },
      spec: {
        ...endpoint.spec,
        profiles: ['kns.shop', 'ksa.shop.till'],
        serviceAccountName: 'till',
        ports: [{ name: 'http', protocol: 'TCP', port: 80 }],
      },
    });
    await api.kubectl('label', 'pod', 'web-1', '-n', 'shop', 'app=db', '--overwrite');
    await until(async () => (await stored('web-1'))?.metadata.labels?.['app'] === 'db', 'the label follows');
    expect(await stored('web-2')).toEqual(unmanaged);
    // The plugin has removed the endpoint of a pod that still ends: it must not come back.
    const { endpoints } = await store.listEndpoints(undefined, FOREVER);
    const before = endpoints.find(({ value }) => value.spec.pod === 'web-1')!;
    await store.commit([{ kind: 'delete-endpoint', before }], FOREVER);
    await api.kubectl('label', 'pod', 'web-1', '-n', 'shop', 'app=cache', '--overwrite');
    await api.kubectl('create', 'namespace', 'later');
    await until(async () => (await profile('kns.later')) !== undefined, 'what came later is done');
    expect(await stored('web-1')).toBeUndefined();
  });

  it('are switched off and on while they run, and refuse unknown names', async () => {
    const configuration = (state: 'Enabled' | 'Disabled') => ({
      apiVersion: 'netplug.io/v3' as const,
      kind: 'ControllersConfiguration' as const,
      metadata: { name: 'default' },
      spec: { controllers: { profile: { state, reconcilerPeriod: '1h' } } },
    });
    const running = async () => replica.metric('netplug_controllers_running{controller="profile"}');
    await store.createResource(configuration('Disabled'), FOREVER);
    await until(async () => (await running()) === undefined, 'the controller has ended');
    await store.deleteResource({ kind: 'Profile', name: 'kns.shop' }, FOREVER);
    await store.updateResource(configuration('Enabled'), FOREVER);
    await until(async () => (await profile('kns.shop')) !== undefined, 'the controller works again');
    const wrong = await launchControllers(
      'two',
      { kubeconfig: api.kubeconfig, etcdUrl: etcd.url },
      {
        ENABLED_CONTROLLERS: 'policy,pods',
      },
    );
    await wrong.ended;
    expect(wrong.log()).toContain('ENABLED_CONTROLLERS is "policy,pods"');
  });
});

function endpointOf(pod: string, podUID: string, profiles: readonly string[]): WorkloadEndpoint {
  const parts = { node: 'node-a', orchestrator: 'orch', workload: pod, endpoint: 'eth0' };
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name: endpointName(parts), namespace: 'shop', labels: { app: 'old' } },
    spec: {
      orchestrator: 'orch',
      node: 'node-a',
      network: 'net',
      containerID: 'c1',
      pod,
      podUID,
      endpoint: 'eth0',
      interfaceName: 'npl1',
      mac: '02:00:00:00:00:01',
      ipNetworks: ['10.65.0.1/32'],
      profiles,
      ipam: 'netplug-ipam',
    },
  };
}
