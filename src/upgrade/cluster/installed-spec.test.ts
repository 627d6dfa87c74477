import { describe, expect, it } from 'vitest';
import { OLD } from '../../../test/support/sound-cluster.ts';
import { clusterObjects } from '../../install/cluster/cluster-objects.ts';
import { settingsOf } from '../../install/cluster/settings-of.ts';
import type { ClusterSettings } from '../../install/cluster/settings.ts';
import type { ComponentOverride, InstallationSpec } from '../../model/installation.ts';
import { installedSettings } from './installed-spec.ts';

const CIRCUMSTANCES = {
  release: OLD,
  variant: 'policy-and-networking',
  datastore: { type: 'orch' },
  defaultPools: [],
} as const;
const NETWORK = { ipPools: [{ cidr: '192.168.0.0/16' }] };
const EVERY = {
  resources: { limits: { memory: '1Gi' } },
  nodeSelector: { zone: 'a' },
  tolerations: [{ key: 'only', operator: 'Exists' }],
  annotations: { 'prometheus.io/scrape': 'true' },
  labels: { team: 'network' },
  env: { NETPLUG_LOG_LEVEL: 'debug' },
} satisfies Required<ComponentOverride>;

function written(spec: InstallationSpec, nodes: number): ClusterSettings {
  return settingsOf({ calicoNetwork: NETWORK, ...spec }, { ...CIRCUMSTANCES, nodes });
}

/** Returns the settings that the objects show on a cluster of so many nodes. */
function shown(settings: ClusterSettings, nodes: number, edit: (text: string) => string = (text) => text): unknown {
  const objects = clusterObjects(settings).flatMap((stage) => stage.objects);
  const live = JSON.parse(edit(JSON.stringify(objects))) as typeof objects;
  const found = installedSettings({ objects: live, pods: [], nodes: Array.from({ length: nodes }), tool: OLD });
  return settingsOf(found.spec, { ...found.circumstances, release: OLD });
}

describe('the settings that the objects of an installation show', () => {
  it.each(Object.keys(EVERY) as (keyof typeof EVERY)[])('have %s of agents and controllers', (field) => {
    const spec = { node: { [field]: EVERY[field] }, controllers: { [field]: EVERY[field] } };
    expect(shown(written(spec, 3), 3)).toEqual(written(spec, 3));
  });

  it('have every override together, and an empty list of tolerations', () => {
    const spec = { node: EVERY, controllers: { ...EVERY, tolerations: [] } };
    expect(shown(written(spec, 3), 3)).toEqual(written(spec, 3));
    const withoutEmpty = (text: string): string => text.replace('"tolerations":[],', '');
    expect(shown(written(spec, 3), 3, withoutEmpty)).toEqual(written(spec, 3));
  });

  it('do not have the mark of a restart by kubectl', () => {
    const spec = { node: { annotations: { 'kubectl.kubernetes.io/restartedAt': '2026-11-26T12:00:00Z' } } };
    expect(shown(written(spec, 3), 3)).toEqual(written({}, 3));
  });

  it.each([
    ['follow the number of nodes', {}, 2],
    ['stay when there are more', { controlPlaneReplicas: 3 }, 3],
  ])('have replicas of the controllers that %s', (_, spec, replicas) => {
    expect(shown(written(spec, 1), 3)).toMatchObject({ spec: { controlPlaneReplicas: replicas } });
  });
});
