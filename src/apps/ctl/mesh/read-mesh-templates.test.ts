import { describe, expect, it } from 'vitest';
import { cannedApi } from '../../../../test/support/canned-api.ts';
import { injectorWebhook, INJECTORS_PATH } from '../../../../test/support/injector-webhook.ts';
import { type MeshTemplate, readMeshTemplates } from './read-mesh-templates.ts';

const listOf = (...items: readonly object[]): object => ({ metadata: { resourceVersion: '1' }, items });
const named = (namespace: string, name: string, more: object = {}): object => ({
  metadata: { namespace, name, resourceVersion: '1' },
  ...more,
});
const injectorOf = (namespace: string, name: string, config: string): Readonly<Record<string, object>> => ({
  [`/api/v1/namespaces/${namespace}/configmaps/${name}`]: named(namespace, name, { data: { config } }),
});

async function read(canary: string, ifUnreadable: 'throw' | 'omit'): Promise<readonly MeshTemplate[]> {
  await using api = cannedApi({
    '/apis/apps/v1/deployments': listOf(
      named('istio-system', 'istiod'),
      named('mesh', 'istiod-canary'),
      named('bare', 'istiod'),
    ),
    [INJECTORS_PATH]: listOf(
      injectorWebhook(),
      injectorWebhook('istiod-canary', 'mesh'),
      injectorWebhook('istiod', 'bare'),
    ),
    ...injectorOf('istio-system', 'istio-sidecar-injector', 'templates:\n  netplug: "one"\n'),
    ...injectorOf('mesh', 'istio-sidecar-injector-canary', canary),
    '/api/v1/namespaces/bare/configmaps/istio-sidecar-injector': 404,
  });
  return await readMeshTemplates(api, { ifUnreadable }, AbortSignal.timeout(5000));
}

describe('the templates of a mesh', () => {
  const one = { namespace: 'istio-system', name: 'istio-sidecar-injector', text: 'one' };

  it('are those of the control planes of all namespaces and revisions that have one', async () => {
    const two = { namespace: 'mesh', name: 'istio-sidecar-injector-canary', text: 'two' };
    expect(await read('templates:\n  netplug: "two"\n', 'throw')).toEqual([one, two]);
    expect(await read('templates:\n  sidecar: "two"\n', 'throw')).toEqual([one]);
  });

  it('leave out one that cannot be parsed only where that is asked for', async () => {
    expect(await read('templates: [', 'omit')).toEqual([one]);
    await expect(read('templates: [', 'throw')).rejects.toMatchObject({ code: 'mesh/config-unreadable' });
  });
});
