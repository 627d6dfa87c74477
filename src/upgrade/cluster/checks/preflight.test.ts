import { describe, expect, it } from 'vitest';
import { NEW, OLD, type SoundCluster, soundCluster, targetFor } from '../../../../test/support/sound-cluster.ts';
import { BROKEN_MESHES } from '../../../../test/support/mesh-facts.ts';
import type { HostEndpoint } from '../../../model/host-endpoint.ts';
import { metadataIn, recordIn } from '../objects-in.ts';
import type { ChartRelease, ClusterSnapshot } from '../snapshot.ts';
import { hasErrors } from '../../../checks/check.ts';
import { findHazards, PREFLIGHT_CHECKS } from './preflight.ts';

const ids = (snapshot: ClusterSnapshot, cluster: SoundCluster = {}): readonly string[] =>
  findHazards(snapshot, targetFor(cluster)).map(({ id }) => id);

const ALL_INTERFACES: HostEndpoint = {
  apiVersion: 'netplug.io/v3',
  kind: 'HostEndpoint',
  metadata: { name: 'node-1-all' },
  spec: { node: 'node-1', interfaceName: '*' },
};
const CHART: ChartRelease = {
  name: 'calico',
  namespace: 'default',
  revision: 3,
  status: 'deployed',
  chart: 'netplug',
  version: 'v3.22.1',
  values: {},
  record: 'sh.helm.release.v1.calico.v3',
};
const ONE_POOL: ClusterSnapshot['datastore']['pools'][number] = { name: 'pods', cidr: '10.1.0.0/16', used: 0.1 };

type Change = (sound: ClusterSnapshot) => ClusterSnapshot;

const node =
  (change: Partial<ClusterSnapshot['nodes'][number]>): Change =>
  (sound) => ({ ...sound, nodes: sound.nodes.map((each, index) => (index === 1 ? { ...each, ...change } : each)) });
const pod =
  (change: Partial<ClusterSnapshot['pods'][number]>): Change =>
  (sound) => ({
    ...sound,
    pods: sound.pods.map((each, index) => (index === sound.pods.length - 1 ? { ...each, ...change } : each)),
  });
const datastore =
  (change: Partial<ClusterSnapshot['datastore']>): Change =>
  (sound) => ({ ...sound, datastore: { ...sound.datastore, ...change } });
const object =
  (name: string, change: (found: Readonly<Record<string, unknown>>) => object): Change =>
  (sound) => ({
    ...sound,
    objects: sound.objects.map((each) => (metadataIn(each).name === name ? { ...each, ...change(each) } : each)),
  });
const agentOf =
  (release: string): Change =>
  (sound) => ({
    ...sound,
    objects: sound.objects.map((each) => ({ ...JSON.parse(JSON.stringify(each).replaceAll(OLD, release)) })),
    pods: sound.pods.map((each) => ({ ...each, images: each.images.map((image) => image.replace(OLD, release)) })),
  });
const withDryRun =
  (outcome: 'refused' | 'changed', lost: { field: string; manager: string }[] = []): Change =>
  (sound) => ({
    ...sound,
    dryRuns: [{ object: 'DaemonSet netplug-system/netplug-node', outcome, message: 'denied by policy', lost }],
  });

/** The hazard of each check, seeded into a sound cluster. */
const HAZARDS: Readonly<Record<string, Change>> = {
  'server/too-old': (sound) => ({ ...sound, kubernetes: 'v1.28.3' }),
  'nodes/not-ready': node({ isReady: false }),
  'nodes/cordoned': node({ isSchedulable: false }),
  'nodes/kubelet-too-old': node({ kubelet: 'v1.29.0' }),
  'nodes/runtime-too-old': node({ runtime: 'containerd://1.6.20' }),
  'nodes/kernel-too-old': node({ kernel: '4.19.0-27-amd64' }),
  'nodes/clock-skew': node({ clockAheadMs: -31_000 }),
  'nodes/architecture': node({ architecture: 's390x' }),
  'nodes/agent-missing': pod({ phase: 'running' }),
  'nodes/mixed-releases': pod({ images: ['netplug.io/netplug-node:v3.25.0'] }),
  'nodes/pods-restarting': pod({ waiting: 'CrashLoopBackOff' }),
  'server/webhooks': (sound) => ({
    ...sound,
    webhooks: [{ name: 'deny.example', failurePolicy: 'Fail', isBehindPodNetwork: true, matches: ['pods'] }],
  }),
  'admission/refused-pods': (sound) => ({ ...sound, refusedPods: ['Deployment shop/web (cni.netplug/floatingIPs)'] }),
  'bindings/lose-rights': (sound) => ({
    ...sound,
    lostRights: [{ role: 'netplug-admin', rights: ['patch nodes/status'], bindings: ['RoleBinding a/b (User bob)'] }],
  }),
  'admission/agent-outside-pod': (sound) => ({ ...sound, agentsOutsidePods: ['node-3'] }),
  'server/rights': (sound) => ({ ...sound, missingRights: ['patch daemonsets.apps in netplug-system'] }),
  'release/unknown': (sound) => ({
    ...agentOf('latest')(sound),
    objects: agentOf('latest')(sound)
      .objects.filter(({ kind }) => kind === 'DaemonSet')
      .map((each) => ({ ...each, metadata: { name: metadataIn(each).name } })),
  }),
  'release/too-old': agentOf('v2.6.12'),
  'release/newer': agentOf('v3.28.0'),
  'pods/mtu-changed': object('netplug-config', ({ data }) => ({
    data: {
      ...(data as object),
      conflist: String(recordIn({ data }, 'data')['conflist']).replace(/"plugins": ?\[\s*\{/, '$& "mtu": 1400,'),
    },
  })),
  'objects/selector-changed': object('netplug-node', ({ spec }) => ({
    spec: { ...(spec as object), selector: { matchLabels: { 'k8s-app': 'netplug-node' } } },
  })),
  'objects/refused': withDryRun('refused'),
  'objects/fields-lost': withDryRun('changed', [
    { field: 'spec.template.spec.containers[agent].resources', manager: 'kubectl-edit' },
  ]),
  'objects/plugins-lost': object('netplug-config', ({ data }) => ({
    data: JSON.parse(JSON.stringify(data).replaceAll('portmap', 'tuning')),
  })),
  'objects/parts-lost': object('netplug-node', (found) =>
    JSON.parse(
      JSON.stringify(found).replace('"volumes":[', '"volumes":[{"name":"certificates-of-mine","emptyDir":{}},'),
    ),
  ),
  'objects/gitops': object('netplug-node', ({ metadata }) => ({
    metadata: { ...(metadata as object), annotations: { 'argocd.argoproj.io/tracking-id': 'netplug:apps/DaemonSet' } },
  })),
  'objects/rolling': object('netplug-node', () => ({
    status: { desiredNumberScheduled: 3, updatedNumberScheduled: 1 },
  })),
  'objects/on-delete': object('netplug-node', ({ spec }) => ({
    spec: { ...(spec as object), updateStrategy: { type: 'OnDelete' } },
  })),
  'objects/images-by-other-registry': (sound) => ({
    ...sound,
    objects: sound.objects.map((each) => ({
      ...JSON.parse(JSON.stringify(each).replaceAll('netplug.io/netplug', 'registry.example:5000/netplug')),
    })),
  }),
  'objects/portmap-scale': (sound) => ({
    ...sound,
    services: 4000,
    nodes: Array.from({ length: 100 }, (_, index) => ({ ...sound.nodes[0]!, name: `node-${String(index + 1)}` })),
    pods: Array.from({ length: 100 }, (_, index) => ({ ...sound.pods.at(-1)!, node: `node-${String(index + 1)}` })),
  }),
  'chart/pending': (sound) => ({ ...sound, charts: [{ ...CHART, status: 'pending-upgrade' }] }),
  'chart/several': (sound) => ({ ...sound, charts: [CHART, { ...CHART, name: 'other', namespace: 'apps' }] }),
  'chart/removed-kinds': (sound) => ({ ...sound, charts: [CHART] }),
  'datastore/unreadable': (sound) => ({ ...sound, unread: [{ fact: 'probe', why: 'the datastore is unavailable' }] }),
  'datastore/other': object('netplug-node', (found) =>
    JSON.parse(JSON.stringify(found).replace('"value":"orch"', '"value":"kvv3"')),
  ),
  'datastore/locked': datastore({ isLocked: true }),
  'datastore/record-unreadable': datastore({ unreadable: ['IPPool/blue: spec.cidr is no CIDR'] }),
  'datastore/newer': datastore({ clusterVersion: 'v3.28.1' }),
  'datastore/kv-recommended': datastore({ type: 'kvv3' }),
  'addresses/inconsistent': datastore({ addressProblems: 2 }),
  'addresses/pool-full': datastore({ pools: [{ name: 'default-ipv4', cidr: '192.168.0.0/16', used: 0.97 }] }),
  'addresses/pool-overlaps-nodes': datastore({ pools: [{ name: 'wide', cidr: '10.0.0.0/8', used: 0 }] }),
  'host-endpoints/unprepared': (sound) => datastore({ hostEndpoints: [ALL_INTERFACES] })(agentOf('v3.13.5')(sound)),
  'host-endpoints/all-interfaces': datastore({ hostEndpoints: [ALL_INTERFACES] }),
  'policy/prefix-meaning': datastore({ openPrefixes: ['NetworkPolicy shop/web (/items)'] }),
  ...Object.fromEntries(
    Object.entries(BROKEN_MESHES).map(([id, meshState]) => [id, (sound: ClusterSnapshot) => ({ ...sound, meshState })]),
  ),
};

describe('the preflight of an upgrade', () => {
  it('has a seeded hazard for every check [limit-portmap] [up-releases]', () => {
    expect(Object.keys(HAZARDS).sort()).toEqual(PREFLIGHT_CHECKS.map(({ id }) => id).sort());
    expect(PREFLIGHT_CHECKS.length).toBeGreaterThanOrEqual(25);
  });

  it.each(PREFLIGHT_CHECKS.map(({ id }) => id))('finds %s, with its objects and a remedy', (id) => {
    const found = findHazards(HAZARDS[id]!(soundCluster()), targetFor()).filter((hazard) => hazard.id === id);
    expect(found).toHaveLength(1);
    expect(found[0]?.objects?.length).toBeGreaterThan(0);
    expect(found[0]?.remedy).not.toBe('');
  });

  it.each<[string, SoundCluster]>([
    ['by manifest', {}],
    ['with BGP', { spec: { calicoNetwork: { ipPools: [{ cidr: '10.1.0.0/16', encapsulation: 'None' }] } } }],
    ['with both families', { spec: { calicoNetwork: { ipPools: [{ cidr: '10.1.0.0/16' }, { cidr: 'fd00::/48' }] } } }],
    ['with host-local', { spec: { cni: { ipam: { type: 'HostLocal' } } } }],
    ['with a second plugin', { circumstances: { variant: 'second-plugin' } }],
    ['with policy only', { circumstances: { variant: 'policy-only', interfacePrefix: 'eni' } }],
    ['of one node', { nodes: 1 }],
    ['of 120 nodes without host ports', { nodes: 120, spec: { calicoNetwork: { hostPorts: 'Disabled' } } }],
    ['at the target already', { release: NEW }],
    ['with a registry of its own', { spec: { registry: 'registry.example:5000/netplug' } }],
  ])('finds nothing in a sound cluster %s', (_, cluster) => {
    const snapshot = soundCluster(cluster);
    expect(ids({ ...snapshot, services: 9000 }, cluster)).toEqual([]);
  });

  it('finds ten hazards at once', () => {
    const seeded = [
      'nodes/not-ready',
      'nodes/cordoned',
      'nodes/pods-restarting',
      'server/rights',
      'objects/gitops',
      'objects/fields-lost',
      'datastore/locked',
      'addresses/inconsistent',
      'addresses/pool-full',
      'host-endpoints/all-interfaces',
    ];
    const snapshot = seeded.reduce((sound, id) => HAZARDS[id]!(sound), soundCluster());
    expect(ids(snapshot)).toEqual(expect.arrayContaining(seeded));
    expect(hasErrors(findHazards(snapshot, targetFor()))).toBe(true);
  });

  const NO_AGENT = {
    isReady: false,
    isSchedulable: false,
    architecture: 's390x',
    kernel: '4.19.0',
    kubelet: 'v1.20.0',
  };
  const keptOff =
    (change: object): Change =>
    (sound) => ({
      ...object('netplug-node', ({ spec }) => {
        const { template } = spec as { template: { spec: object } };
        return { spec: { ...(spec as object), template: { ...template, spec: { ...template.spec, ...change } } } };
      })(sound),
      pods: sound.pods.filter(({ node: name, component }) => name !== 'node-2' || component !== 'netplug-node'),
    });

  it.each<[string, Change]>([
    [
      'by a selector',
      (sound) =>
        keptOff({ nodeSelector: { pool: 'pods' } })({
          ...sound,
          nodes: sound.nodes.map((each, index) => ({ ...each, labels: index === 1 ? {} : { pool: 'pods' } })),
        }),
    ],
    ['by a taint', (sound) => keptOff({ tolerations: [] })(node({ taints: ['reserved=yes:NoSchedule'] })(sound))],
  ])('finds nothing about a node that the agent is kept off %s', (_, keep) => {
    expect(ids(keep(node(NO_AGENT)(soundCluster())))).toEqual([]);
  });

  it('does find a node whose taint the agent tolerates, and one with a taint of Kubernetes', () => {
    const tainted = node({ ...NO_AGENT, taints: ['reserved=yes:NoSchedule'] })(soundCluster());
    const tolerating = keptOff({ tolerations: [{ key: 'reserved', operator: 'Exists', effect: 'NoSchedule' }] });
    expect(ids(tolerating(tainted))).toContain('nodes/architecture');
    const byKubernetes = node({ ...NO_AGENT, taints: ['node.kubernetes.io/not-ready=:NoExecute'] })(soundCluster());
    expect(ids(keptOff({ tolerations: [] })(byKubernetes))).toContain('nodes/not-ready');
  });

  it.each<[string, Change, string]>([
    ['the address of a node', node({ addresses: ['10.1.2.3'] }), '10.1.2.3/32, the address of node "node-2"'],
    [
      'the network that the agent of a node has published',
      node({ addresses: ['10.9.0.5/8'] }),
      '10.0.0.0/8, the network of node "node-2"',
    ],
    [
      'the network of a node that is a record in etcd',
      datastore({
        pools: [{ ...ONE_POOL, cidr: 'fd00:1:2::/48' }],
        nodes: [{ name: 'node-2', addresses: ['fd00:1::5/32'] }],
      }),
      'fd00:1::/32, the network of node "node-2"',
    ],
    [
      'a range of Services',
      (sound) => ({ ...sound, serviceCidrs: ['10.1.128.0/20'] }),
      '10.1.128.0/20, a range of Services',
    ],
  ])('names a pool over %s', (_, change, what) => {
    const found = findHazards(change(datastore({ pools: [ONE_POOL] })(soundCluster())), targetFor({}));
    expect(found.find(({ id }) => id === 'addresses/pool-overlaps-nodes')?.objects?.join()).toContain(
      `overlaps ${what}`,
    );
  });

  it.each<[string, Change, string]>([
    ['the oldest kernel that an installation accepts', node({ kernel: '5.10.0-30-amd64' }), 'nodes/kernel-too-old'],
    ['restarts of another day', pod({ restarts: 40, restartedAt: '2026-11-24T03:00:00Z' }), 'nodes/pods-restarting'],
    [
      'a full pool that is disabled',
      datastore({ pools: [{ name: 'old', cidr: '192.168.0.0/16', used: 1, isDisabled: true }] }),
      'addresses/pool-full',
    ],
    [
      'an empty pool over the nodes that is disabled, as the remedy says',
      datastore({ pools: [{ name: 'wide', cidr: '10.0.0.0/8', used: 0, isDisabled: true }] }),
      'addresses/pool-overlaps-nodes',
    ],
    [
      'a chart of an old version without the removed kind',
      (sound) => ({ ...sound, charts: [{ ...CHART, kinds: ['Deployment', 'ServiceAccount'] }] }),
      'chart/removed-kinds',
    ],
    [
      'a DaemonSet that waits for its pods to be deleted',
      object('netplug-node', ({ spec }) => ({
        spec: { ...(spec as object), updateStrategy: { type: 'OnDelete' } },
        status: { desiredNumberScheduled: 3, updatedNumberScheduled: 1 },
      })),
      'objects/rolling',
    ],
  ])('is silent about %s', (_, change, id) => {
    expect(ids(change(soundCluster()))).not.toContain(id);
  });

  it('finds a Deployment that is rolled out, and restarts of the last hour', () => {
    const rolling = object('netplug-orch-controllers', ({ spec }) => ({
      spec: { ...(spec as object), replicas: 2 },
      status: { observedGeneration: 3, updatedReplicas: 1 },
    }));
    expect(ids(rolling(soundCluster()))).toEqual(['objects/rolling']);
    const restarted = pod({ restarts: 5, restartedAt: '2026-11-25T11:30:00Z' });
    expect(ids(restarted(soundCluster()))).toEqual(['nodes/pods-restarting']);
  });

  it('takes a Namespace with a status for no roll-out', () => {
    const active = object('netplug-system', () => ({
      spec: { finalizers: ['kubernetes'] },
      status: { phase: 'Active' },
    }));
    expect(ids(active(soundCluster()))).toEqual([]);
  });

  it('names a workload with another selector once, not as refused as well', () => {
    const other = HAZARDS['objects/selector-changed']!(withDryRun('refused')(soundCluster()));
    expect(ids(other)).toEqual(['objects/selector-changed']);
  });

  it('does not block for host endpoints that are prepared', () => {
    const prepared = datastore({ hostEndpoints: [ALL_INTERFACES], preparation: ['allow-all-upgrade'] })(
      agentOf('v3.13.5')(soundCluster()),
    );
    expect(ids(prepared)).not.toContain('host-endpoints/unprepared');
  });
});

it('says nothing of prefixes where they end at segments already', () => {
  const written = datastore({ openPrefixes: ['NetworkPolicy shop/web (/items)'] });
  expect(ids(written(soundCluster({ release: NEW })))).toEqual([]);
});

it('names no parts that the fan-out had when it is switched off, or gets when it is switched on', () => {
  const withFanOut = { spec: { typha: { mode: 'Enabled' } } } as const;
  expect(ids(soundCluster({ ...withFanOut, release: NEW }))).toEqual([]);
  expect(ids(soundCluster({ release: NEW }), withFanOut)).toEqual([]);
});
