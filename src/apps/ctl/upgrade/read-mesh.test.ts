import { expect, it } from 'vitest';
import { cannedApi } from '../../../../test/support/canned-api.ts';
import { injectorWebhook, INJECTORS_PATH } from '../../../../test/support/injector-webhook.ts';
import { readTemplates } from './backup.ts';
import { readControlPlanes, readMesh, readSidecars } from './read-mesh.ts';
import { readRollbackMesh } from './rollback.ts';

const { signal } = new AbortController();
const IMAGE = 'netplug.io/netplug-sidecar';

interface Owner {
  readonly kind: string;
  readonly name: string;
  readonly apiVersion?: string;
}

let uids = 0;
function pod(
  owner: Owner | undefined,
  image: string | undefined,
  more: { form?: string; leaving?: true } = {},
): object {
  const { form = 'initContainers', leaving } = more;
  const sidecar = image === undefined ? [] : [{ name: 'netplug-sidecar', image }];
  return {
    metadata: {
      name: `pod-${String((uids += 1))}`,
      namespace: 'shop',
      ownerReferences: owner === undefined ? [] : [{ apiVersion: 'apps/v1', controller: true, ...owner }],
      ...(leaving === undefined ? {} : { deletionTimestamp: '2026-01-01T00:00:00Z' }),
    },
    spec: { containers: [{ name: 'main', image: 'web:v3.0.0' }], [form]: sidecar },
  };
}

function replicaSet(name: string, deployment: string): object {
  const ownerReferences = [{ apiVersion: 'apps/v1', kind: 'Deployment', name: deployment, controller: true }];
  return { metadata: { name, namespace: 'shop', ownerReferences } };
}

const PODS = [
  pod({ kind: 'ReplicaSet', name: 'web-1' }, `${IMAGE}:v3.9.0`),
  pod({ kind: 'ReplicaSet', name: 'web-2' }, `${IMAGE}:v3.27.0@sha256:0`),
  pod({ kind: 'ReplicaSet', name: 'web-2' }, `${IMAGE}:v3.26.4`),
  pod({ kind: 'ReplicaSet', name: 'web-2' }, `${IMAGE}:v3.1.0`, { leaving: true }),
  pod({ kind: 'ReplicaSet', name: 'gone' }, `${IMAGE}:v3.26.4`),
  pod({ kind: 'StatefulSet', name: 'db' }, `${IMAGE}@sha256:0`),
  pod({ kind: 'StatefulSet', name: 'db' }, `${IMAGE}:v3.26.4`, { form: 'containers' }),
  pod({ kind: 'StatefulSet', name: 'db', apiVersion: 'apps.kruise.io/v1beta1' }, `${IMAGE}:latest`),
  pod({ kind: 'Job', name: 'once', apiVersion: 'batch/v1' }, `${IMAGE}:v3.26.4`),
  pod({ kind: 'Deployment', name: 'without' }, undefined),
  pod(undefined, `${IMAGE}:v3.26.4`),
];

const ANSWERS = {
  '/api/v1/pods': { metadata: { resourceVersion: '1' }, items: PODS },
  '/api/v1/namespaces/other/pods': { metadata: { resourceVersion: '1' }, items: [] },
  // One listing: an answer to the read of a single one is missing.
  '/apis/apps/v1/replicasets': {
    metadata: { resourceVersion: '1' },
    items: [replicaSet('web-1', 'web'), replicaSet('web-2', 'web')],
  },
  '/apis/apps/v1/deployments': { metadata: { resourceVersion: '1' }, items: [] },
};

it('reads the releases of sidecars of all pods, whatever form they have, by what a user restarts', async () => {
  const found = await readMesh(cannedApi(ANSWERS), signal);
  expect(found).toEqual({
    mesh: undefined,
    sidecars: [
      { kind: 'Deployment', namespace: 'shop', name: 'web', version: 'v3.9.0', newest: 'v3.27.0' },
      { kind: 'ReplicaSet', namespace: 'shop', name: 'gone', version: 'v3.26.4', newest: 'v3.26.4' },
      {
        kind: 'StatefulSet',
        namespace: 'shop',
        name: 'db',
        version: 'v3.26.4',
        newest: 'v3.26.4',
        unknownImage: `${IMAGE}@sha256:0`,
      },
      { kind: 'StatefulSet.apps.kruise.io', namespace: 'shop', name: 'db', unknownImage: `${IMAGE}:latest` },
      { kind: 'Job', namespace: 'shop', name: 'once', version: 'v3.26.4', newest: 'v3.26.4' },
      { kind: 'Pod', namespace: 'shop', name: expect.stringMatching(/^pod-/), version: 'v3.26.4', newest: 'v3.26.4' },
    ],
  });
});

it('reads only the namespace that is named', async () => {
  expect(await readSidecars(cannedApi(ANSWERS), { namespace: 'other' }, signal)).toEqual([]);
});

it.each(['a/b/c', '..', 'x%2Fstatus', ''])('takes an owner that is named "%s" for none', async (name) => {
  const items = ['ReplicaSet', 'StatefulSet'].map((kind) => pod({ kind, name }, `${IMAGE}:v3.26.4`));
  const answers = { ...ANSWERS, '/api/v1/pods': { metadata: { resourceVersion: '1' }, items } };
  expect(await readSidecars(cannedApi(answers), {}, signal)).toMatchObject([{ kind: 'Pod' }, { kind: 'Pod' }]);
});

it('goes on with a rollback and a backup where the mesh cannot be read, and says so', async () => {
  const broken = { '/apis/apps/v1/deployments': { items: 'none' }, '/api/v1/pods': { items: 'none' } };
  expect(await readRollbackMesh(cannedApi(broken), signal)).toEqual({ unread: expect.stringMatching(/./) });
  let said = '';
  const io = { stderr: (text: string) => (said += text) };
  expect(await readTemplates(cannedApi(broken), io, signal)).toBeUndefined();
  expect(said).toMatch(/^note: the backup is without the injection templates of a mesh, .*\(.+\)\n$/);
});

it('counts only control planes that the API server asks about pods', async () => {
  const planes = [
    ['istiod', 'istio-system'],
    ['istiod-canary', 'istio-system'],
    ['istiod', 'shop'],
    ['istiod-other', 'istio-system'],
  ].map(([name, namespace]) => ({ metadata: { name, namespace } }));
  const outside = { metadata: { name: 'outside' }, webhooks: [{ clientConfig: { url: 'https://shop.example' } }] };
  const webhooks = [injectorWebhook(), injectorWebhook('istiod-canary'), outside];
  const answers = {
    '/apis/apps/v1/deployments': { metadata: { resourceVersion: '1' }, items: planes },
    [INJECTORS_PATH]: { metadata: { resourceVersion: '1' }, items: webhooks },
  };
  expect(await readControlPlanes(cannedApi(answers), signal)).toMatchObject(planes.slice(0, 2));
  const refused = readControlPlanes(cannedApi({ ...answers, [INJECTORS_PATH]: 403 }), signal);
  await expect(refused).rejects.toMatchObject({ code: 'store/refused' });
});
