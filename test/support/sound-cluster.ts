// A snapshot of a sound cluster, made from what an installation of an older release applies.
import { clusterObjects } from '../../src/install/cluster/cluster-objects.ts';
import { type Circumstances, settingsOf } from '../../src/install/cluster/settings-of.ts';
import type { PodState } from '../../src/kube/status/pod-state.ts';
import type { InstallationSpec } from '../../src/model/installation.ts';
import { containersIn, metadataIn, textIn } from '../../src/upgrade/cluster/objects-in.ts';
import type { NodeState } from '../../src/kube/status/node-state.ts';
import type { ClusterSnapshot } from '../../src/upgrade/cluster/snapshot.ts';
import type { UpgradeTarget } from '../../src/upgrade/cluster/target.ts';

export const OLD = 'v3.26.4';
export const NEW = 'v3.27.0';

const SERVED = [
  'netplug.io/installations',
  'apps/deployments',
  'apps/daemonsets',
  '/serviceaccounts',
  'rbac.authorization.k8s.io/clusterroles',
  'rbac.authorization.k8s.io/clusterrolebindings',
  'admissionregistration.k8s.io/validatingadmissionpolicies',
  'admissionregistration.k8s.io/validatingadmissionpolicybindings',
];

export interface SoundCluster {
  readonly release?: string;
  readonly spec?: InstallationSpec;
  readonly circumstances?: Partial<Circumstances>;
  readonly nodes?: number;
}

/** Returns the snapshot of a cluster in which everything is as the checks expect. */
export function soundCluster({
  release = OLD,
  spec = {},
  circumstances = {},
  nodes = 3,
}: SoundCluster = {}): ClusterSnapshot {
  const settings = settingsOf(spec, circumstancesOf(release, circumstances, nodes));
  const objects = clusterObjects(settings).flatMap((stage) => stage.objects);
  const workloads = objects.filter(({ kind }) => kind === 'DaemonSet' || kind === 'Deployment');
  const states = Array.from({ length: nodes }, (_, index) => nodeState(index));
  return {
    format: 2,
    at: '2026-11-25T12:00:00Z',
    tool: NEW,
    kubernetes: 'v1.37.2',
    objects,
    served: SERVED,
    charts: [],
    nodes: states,
    pods: workloads.flatMap((workload) => states.map((node, index) => podState(workload, node.name, index))),
    sidecars: [],
    mesh: undefined,
    datastore: {
      type: settings.datastore.type,
      clusterVersion: release,
      isLocked: false,
      hostEndpoints: [],
      preparation: [],
      addressProblems: 0,
      unreadable: [],
      pools: settings.pools.map(({ metadata, spec: { cidr } }) => ({ name: metadata.name, cidr, used: 0.4 })),
    },
    dryRuns: objects.map((object) => ({
      object: `${textIn(object, 'kind')}/${metadataIn(object).name}`,
      outcome: 'changed' as const,
      message: '',
      lost: [],
    })),
    missingRights: [],
    lostRights: [],
    refusedPods: [],
    agentsOutsidePods: [],
    services: 200,
    webhooks: [{ name: 'policy.example', failurePolicy: 'Ignore', isBehindPodNetwork: true, matches: ['pods'] }],
    unread: [],
  };
}

/** Returns what the upgrade of that cluster leads to. */
export function targetFor({ spec = {}, circumstances = {}, nodes = 3 }: SoundCluster = {}): UpgradeTarget {
  return {
    release: NEW,
    stages: clusterObjects(settingsOf(spec, circumstancesOf(NEW, circumstances, nodes))),
    operator: [],
    source: './netplug-v3.27.0',
    manifest: 'netplug.yaml',
    definitions: 'netplug-crds.yaml',
    chart: 'netplug-v3.27.0.tgz',
    injectors: ['1.15.3'],
  };
}

function circumstancesOf(release: string, more: Partial<Circumstances>, nodes: number): Circumstances {
  return {
    release,
    variant: 'policy-and-networking',
    datastore: { type: 'orch' },
    defaultPools: [{ cidr: '192.168.0.0/16' }],
    nodes,
    ...more,
  };
}

function nodeState(index: number): NodeState {
  return {
    name: `node-${String(index + 1)}`,
    os: 'linux',
    isReady: true,
    isSchedulable: true,
    kubelet: 'v1.37.2',
    architecture: index === 0 ? 'amd64' : 'arm64',
    kernel: '6.1.0-37-cloud-amd64',
    runtime: 'containerd://2.4.2',
    addresses: [`10.0.0.${String(index + 1)}`],
    podCidrs: [],
    taints: [],
    labels: {},
  };
}

function podState(workload: Readonly<Record<string, unknown>>, node: string, index: number): PodState {
  const { name, namespace = '' } = metadataIn(workload);
  return {
    name: `${name}-${String(index)}`,
    namespace,
    component: name,
    node,
    phase: 'ready',
    addresses: [],
    readyContainers: 1,
    images: containersIn(workload).map((container) => textIn(container, 'image')),
    restarts: 0,
  };
}
