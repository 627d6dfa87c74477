import { describe, expect, it } from 'vitest';
import { type CannedAnswers, cannedApi, WITHOUT_WORKLOADS } from '../../../../test/support/canned-api.ts';
import { injectorWebhook, INJECTORS_PATH } from '../../../../test/support/injector-webhook.ts';
import { judgeAll } from '../../../checks/check.ts';
import { MESH_CHECKS, type MeshFacts } from '../../../checks/mesh-checks.ts';
import { envoyFilter } from '../../../mesh/envoy-filter.ts';
import { injectionTemplate, withTemplate } from '../../../mesh/injection-template.ts';
import { VERSION } from '../../../base/version.ts';
import { readMeshFacts, readMeshFactsOf } from './read-mesh-facts.ts';

const listOf = (...items: readonly object[]): object => ({ metadata: { resourceVersion: '1' }, items });
const named = (name: string, namespace: string, more: object = {}): object => ({
  metadata: { name, namespace, resourceVersion: '1' },
  ...more,
});
const istiod = (name: string, namespace: string, image = 'docker.io/istio/pilot:1.28.1'): object =>
  named(name, namespace, { spec: { template: { spec: { containers: [{ name: 'discovery', image }] } } } });
const CONFIG = withTemplate(
  'templates:\n  sidecar: "spec: {}"\n',
  injectionTemplate({ mesh: '1.28.1', image: `netplug.io/netplug-sidecar:${VERSION}`, pullSecrets: [] }),
);
const maps = (namespace: string): string => `/api/v1/namespaces/${namespace}/configmaps`;
const FILTERS = '/apis/networking.istio.io/v1alpha3/envoyfilters';
const DEFINITION = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/envoyfilters.networking.istio.io';

const SOUND: CannedAnswers = {
  ...WITHOUT_WORKLOADS,
  '/api/v1/pods': listOf(named('web', 'shop'), named('web-2', 'shop')),
  '/apis/apps/v1/deployments': listOf(istiod('istiod', 'istio-system')),
  [INJECTORS_PATH]: listOf(injectorWebhook(), injectorWebhook('istiod-canary', 'mesh')),
  [`${maps('istio-system')}/istio-sidecar-injector`]: named('istio-sidecar-injector', 'istio-system', {
    data: { config: CONFIG },
  }),
  [`${maps('istio-system')}/istio`]: named('istio', 'istio-system', {
    data: { mesh: 'a: b\nrootNamespace: "istio-config"\n' },
  }),
  [DEFINITION]: named('envoyfilters.networking.istio.io', ''),
  [FILTERS]: listOf(
    JSON.parse(JSON.stringify(envoyFilter())) as object,
    named('other', 'shop', { spec: { configPatches: [] } }),
  ),
  '/api/v1/namespaces': listOf(named('apps', '')),
};
const read = async (change: CannedAnswers = {}, ifUnused: 'omit' | 'read' = 'omit'): Promise<MeshFacts | undefined> => {
  await using api = cannedApi({ ...SOUND, ...change });
  return await readMeshFacts(api, { ifUnused }, AbortSignal.timeout(5000));
};

describe('readMeshFacts', () => {
  it('reads template, filters, the root namespace and ambient namespaces', async () => {
    expect(await read()).toEqual({
      asking: ['shop'],
      injectors: [
        {
          namespace: 'istio-system',
          revision: undefined,
          name: 'istio-sidecar-injector',
          template: { kind: 'current' },
        },
      ],
      filters: [{ namespace: 'istio-system', name: 'netplug', asks: true, state: 'current' }],
      roots: ['istio-config'],
      ambient: ['apps'],
    });
  });

  it('asks nothing more where no pod has a sidecar, and is silent without a mesh', async () => {
    expect(await read({ '/api/v1/pods': listOf(), '/apis/apps/v1/deployments': 403 })).toBeUndefined();
    expect(await read({ '/apis/apps/v1/deployments': listOf(), [DEFINITION]: 404 })).toBeUndefined();
  });

  it('reads what pods to come will find where that is asked for', async () => {
    const facts = await read({ '/api/v1/pods': listOf() }, 'read');
    expect(facts).toMatchObject({ asking: [], injectors: [{ template: { kind: 'current' } }] });
    const without = { '/api/v1/pods': listOf(), '/apis/apps/v1/deployments': listOf(), [DEFINITION]: 404 };
    expect(await read(without, 'read')).toBeUndefined();
  });

  it('fails where the mesh may not be read', async () => {
    await expect(read({ [FILTERS]: 403 })).rejects.toThrow(/envoyfilters is refused/);
  });

  it('knows each control plane by its own name, and what it cannot tell of it', async () => {
    const planes = listOf(istiod('istiod-canary', 'mesh'), istiod('istiod', 'istio-system', 'istio/pilot@sha256:01'));
    const facts = await read({ '/apis/apps/v1/deployments': planes });
    expect(facts?.injectors).toMatchObject([
      { name: 'istio-sidecar-injector-canary', revision: 'canary', template: { kind: 'unreadable' } },
      { name: 'istio-sidecar-injector', template: { kind: 'unreadable', why: expect.stringContaining('no version') } },
    ]);
  });
});

describe('readMeshFactsOf', () => {
  const check = async (filterNamespace: string): Promise<readonly object[]> => {
    const answers = {
      ...SOUND,
      '/apis/apps/v1/namespaces/istio-system/deployments': listOf(istiod('istiod', 'istio-system')),
      [FILTERS]: listOf(JSON.parse(JSON.stringify(envoyFilter(filterNamespace))) as object),
    };
    await using api = cannedApi(answers);
    const place = { namespace: 'istio-system', revision: undefined };
    const meshState = await readMeshFactsOf(api, place, AbortSignal.timeout(5000));
    return judgeAll(MESH_CHECKS, { meshState }).filter(({ id }) => id === 'mesh/filter-missing');
  };

  it('wants the filter in the root namespace that the mesh is configured with', async () => {
    expect(await check('istio-config')).toEqual([]);
    expect(await check('istio-system')).toMatchObject([
      {
        objects: ['Namespace istio-config'],
        remedy: expect.stringContaining('mesh objects --mesh-namespace istio-config |') as string,
      },
    ]);
  });
});
