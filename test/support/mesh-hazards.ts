// Hazards of a service mesh to an upgrade, seeded as objects of a mesh that nothing runs.
import { VERSION } from '../../src/base/version.ts';
import { imageNames } from '../../src/install/cluster/names.ts';
import { envoyFilter } from '../../src/mesh/envoy-filter.ts';
import { injectionTemplate, withTemplate } from '../../src/mesh/injection-template.ts';
import { injectorWebhook } from './injector-webhook.ts';
import type { Json } from './node.ts';
import type { Seed } from './upgrade-hazards.ts';

const ROOT = 'istio-system';
const INJECTOR = { name: 'istio-sidecar-injector', namespace: ROOT };
const MESH = '1.28.1';

/** The kind of its filters, with as much of a schema as it needs. */
export const ENVOY_FILTERS = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'envoyfilters.networking.istio.io' },
  spec: {
    group: 'networking.istio.io',
    scope: 'Namespaced',
    names: { kind: 'EnvoyFilter', plural: 'envoyfilters', singular: 'envoyfilter' },
    versions: [
      {
        name: 'v1alpha3',
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
};

const config = withTemplate(
  'templates:\n  sidecar: "spec: {}"\n',
  injectionTemplate({ mesh: MESH, image: imageNames(VERSION).sidecar, pullSecrets: [] }),
);
const filter: Json = JSON.parse(JSON.stringify(envoyFilter()));
const edited = (from: string, to: string): Json => JSON.parse(JSON.stringify(filter).replace(from, to));
const ofInjector = /^ConfigMap istio-system\/istio-sidecar-injector$/;
const ofFilter = /^EnvoyFilter istio-system\/netplug$/;

interface SeededMesh {
  /** Configuration of the injector. */
  readonly config?: string;
  /** Undefined for none. */
  readonly filter?: object | undefined;
  readonly ambient?: true;
}

/** By the id of the check. */
export const MESH_HAZARDS: Readonly<Record<string, Seed>> = {
  'mesh/template-missing': meshHazard(ofInjector, { config: 'templates:\n  sidecar: "spec: {}"\n' }),
  'mesh/template-older': meshHazard(ofInjector, { config: config.replaceAll(VERSION, 'v3.20.0') }),
  'mesh/template-newer': meshHazard(ofInjector, { config: config.replaceAll(VERSION, 'v3.99.0') }),
  'mesh/template-overwritten': meshHazard(ofInjector, { config: config.replaceAll('netplug.io/', 'mirror.test/') }),
  'mesh/template-unreadable': meshHazard(ofInjector, { config: 'templates: [' }),
  'mesh/filter-missing': meshHazard(/^Namespace default$/, { filter: undefined }),
  'mesh/filter-changed': meshHazard(ofFilter, { filter: edited('0.5s', '30s') }),
  'mesh/filter-fails-open': meshHazard(ofFilter, {
    filter: edited('"transport_api_version"', '"failure_mode_allow":true,"transport_api_version"'),
  }),
  'mesh/ambient-namespace': meshHazard(/^Namespace default$/, { ambient: true }),
};

/** A mesh with everything but the change, and a pod with a sidecar in the namespace default. */
function meshHazard(evidence: RegExp, change: SeededMesh): Seed {
  const mesh = { config, filter, ...change };
  return {
    evidence,
    seed: async ({ server }) => {
      const labels = { app: 'istiod' };
      const containers = [{ name: 'discovery', image: `docker.io/istio/pilot:${MESH}` }];
      await server.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: ROOT } }, ENVOY_FILTERS]);
      await server.kubectl('wait', '--for=condition=Established', `crd/${ENVOY_FILTERS.metadata.name}`);
      await server.apply([
        {
          apiVersion: 'apps/v1',
          kind: 'Deployment',
          metadata: { name: 'istiod', namespace: ROOT, labels },
          spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } },
        },
        injectorWebhook(),
        { apiVersion: 'v1', kind: 'ConfigMap', metadata: INJECTOR, data: { config: mesh.config } },
        ...(mesh.filter === undefined ? [] : [mesh.filter]),
        {
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: { name: 'web', namespace: 'default', labels: { 'netplug.io/sidecar': 'enabled' } },
          spec: { containers: [{ name: 'main', image: 'none' }] },
        },
      ]);
      const label = 'istio.io/dataplane-mode';
      if (mesh.ambient === true) await server.kubectl('label', 'namespace', 'default', `${label}=ambient`);
      return async () => {
        await server.kubectl('label', 'namespace', 'default', `${label}-`);
        await server.kubectl('delete', 'pod', 'web', '-n', 'default', '--now');
        await server.kubectl('delete', 'envoyfilter', 'netplug', '-n', ROOT, '--ignore-not-found');
      };
    },
  };
}
