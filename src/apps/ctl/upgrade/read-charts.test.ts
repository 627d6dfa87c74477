import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { ApiObject } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import type { Collection } from '../../../kube/paths.ts';
import { decodeRecord, readChartRecords } from './read-charts.ts';

const never = new AbortController().signal;

function packed(text: string): string {
  return Buffer.from(gzipSync(text).toString('base64')).toString('base64');
}

function recordIn(namespace: string, registry: string): ApiObject {
  const release = {
    name: 'netplug',
    namespace: 'netplug-system',
    version: 9,
    info: { status: 'deployed' },
    chart: { metadata: { name: 'netplug', version: '3.22.1' } },
    config: { installation: { registry } },
    manifest: 'kind: Deployment\nmetadata:\n  name: netplug-operator\n',
  };
  return {
    metadata: { name: 'sh.helm.release.v1.netplug.v9', namespace },
    data: { release: packed(JSON.stringify(release)) },
  };
}

/** An API server with the operator of a release, and records of helm in these namespaces, whose values name them. */
function apiWith(
  namespaces: readonly string[],
  release: string,
  annotations: Readonly<Record<string, string>>,
): OrchApi {
  const operator = {
    metadata: { name: 'netplug-operator', namespace: 'netplug-system', annotations },
    spec: { template: { spec: { containers: [{ image: `netplug.io/netplug:${release}` }] } } },
  };
  const api = {
    get: async () => Promise.resolve({ outcome: 'ok', value: operator }),
    list: async ({ namespace }: Collection) =>
      Promise.resolve(
        namespaces.filter((each) => namespace === undefined || each === namespace).map((each) => recordIn(each, each)),
      ),
  };
  return api as unknown as OrchApi;
}

const byHelm = (namespace: string): Readonly<Record<string, string>> => ({
  'meta.helm.sh/release-name': 'netplug',
  'meta.helm.sh/release-namespace': namespace,
});

describe('the records of helm of which an upgrade takes the values', () => {
  const everywhere = ['apps', 'default', 'dev', 'netplug-system'];

  it.each([
    ['an operator that helm has not installed', 'v3.26.4', {}, ['netplug-system']],
    ['a chart in the namespace of netplug', 'v3.26.4', byHelm('netplug-system'), ['netplug-system']],
    ['a chart in another namespace', 'v3.26.4', byHelm('apps'), ['apps', 'netplug-system']],
    ['a chart from before v3.23', 'v3.22.1', byHelm('default'), ['default', 'netplug-system']],
    ['one whose objects have been passed on', 'v3.22.1', byHelm('netplug-system'), ['default', 'netplug-system']],
  ])('are none that a tenant writes, with %s', async (_, release, annotations, expected) => {
    const { releases, secrets } = await readChartRecords(apiWith(everywhere, release, annotations), never);
    expect(releases.map(({ namespace, values }) => [namespace, values])).toEqual(
      expected.map((namespace) => [namespace, { installation: { registry: namespace } }]),
    );
    expect(secrets.map(({ metadata }) => (metadata as { namespace: string }).namespace)).toEqual(expected);
  });

  it('do not fill the memory when they are unpacked', async () => {
    const { metadata } = recordIn('netplug-system', '');
    const bomb = packed(JSON.stringify({ name: ' '.repeat(80 << 20) }));
    expect(await decodeRecord({ metadata, data: { release: bomb } })).toContain('it is damaged');
  });
});
