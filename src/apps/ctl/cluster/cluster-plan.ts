import { crdManifests } from '../../../install/cluster/definitions/crd-manifests.ts';
import type { Manifest } from '../../../model/manifest.ts';
import type { InstallMethod } from '../../../install/cluster/checks/preflight-facts.ts';
import { CHART } from '../../../install/cluster/chart/chart-files.ts';
import { clusterObjects, namespaceObject } from '../../../install/cluster/cluster-objects.ts';
import { AGENT_SET, BIRD_SET, OPERATOR } from '../../../install/cluster/names.ts';
import { operatorObjects } from '../../../install/cluster/operator-deployment.ts';
import { certificatesSecret } from '../../../install/cluster/release-manifests.ts';
import type { ClusterSettings } from '../../../install/cluster/settings.ts';
import { CONTROLLERS } from '../../../model/automatic-host-endpoint.ts';
import { INSTALLATION_NAME, type InstallationSpec } from '../../../model/installation.ts';
import { API_VERSION } from '../../../model/resource.ts';
import type { Plan, Stage } from '../../../plans/plan.ts';
import { objectName } from '../../../kube/objects/reference.ts';
import type { WorkloadName } from './wait-ready.ts';

/** What one step of an installation does. Objects are named by their keys, so that no secret is part of a plan. */
export type ClusterAct =
  | { readonly act: 'apply'; readonly object: string }
  | { readonly act: 'check-nodes' }
  | { readonly act: 'create-pools' }
  | { readonly act: 'helm' }
  | { readonly act: 'await-definitions' }
  | { readonly act: 'await-workload'; readonly workload: WorkloadName }
  | { readonly act: 'await-installation' }
  | { readonly act: 'await-nodes' }
  | { readonly act: 'prove' };

export interface ClusterTarget {
  readonly method: InstallMethod;
  readonly settings: ClusterSettings;
  readonly spec: InstallationSpec;
  /** Certificates of etcd in base64. */
  readonly certificates: Readonly<Record<string, string>> | undefined;
  readonly proof: 'run' | 'skip';
  /** Pools that exist are left as they are, because the command line says nothing about pools. */
  readonly keepsPools: boolean;
}

export interface TargetStage {
  readonly title: string;
  readonly objects: readonly Manifest[];
}

/** Returns the objects that the tool itself applies, in stages. */
export function targetStages({ method, settings, spec, certificates }: ClusterTarget): readonly TargetStage[] {
  const { release, images } = settings;
  const namespace = namespaceObject(release);
  if (method !== 'manifest') {
    const definitions = { title: 'CustomResourceDefinitions', objects: crdManifests() };
    if (method === 'chart') return [{ title: 'Namespace', objects: [namespace] }, definitions];
    const operator = operatorObjects({ release, images, replicas: 1, override: {} }).filter(
      ({ kind }) => kind !== 'Namespace',
    );
    return [
      { title: 'Namespace', objects: [namespace] },
      definitions,
      { title: 'Operator', objects: operator },
      { title: 'Installation', objects: [installationObject(spec)] },
    ];
  }
  const secret = certificates === undefined ? [] : [certificatesSecret(certificates, release)];
  const titles = {
    definitions: 'CustomResourceDefinitions',
    rights: 'Accounts and rights',
    configuration: 'Configuration',
    controllers: 'Controllers',
    nodes: 'Agents on the nodes',
  } as const;
  const stages = clusterObjects(settings).map(({ stage, objects }) => ({
    title: titles[stage],
    objects: [...(stage === 'configuration' ? secret : []), ...objects.filter(({ kind }) => kind !== 'Namespace')],
  }));
  return [{ title: 'Namespace', objects: [namespace] }, ...stages];
}

/** Returns the Installation of the operator. */
export function installationObject(spec: InstallationSpec): Manifest {
  return { apiVersion: API_VERSION, kind: 'Installation', metadata: { name: INSTALLATION_NAME }, spec };
}

/** Makes the plan from what would change in those objects of `targetStages` that exist. Pure. */
export function clusterPlan(
  target: ClusterTarget,
  { changes, notes }: { readonly changes: ReadonlyMap<string, readonly unknown[]>; readonly notes: readonly string[] },
): Plan<ClusterAct> {
  const { method, settings, proof } = target;
  const stages: Stage<ClusterAct>[] = [];
  for (const { title, objects } of targetStages(target)) {
    const steps = objects.flatMap((object) => {
      const key = objectName(object);
      const changed = changes.get(key);
      return changed?.length === 0
        ? []
        : [write(`${changed === undefined ? 'create' : 'change'} ${key}`, { act: 'apply', object: key })];
    });
    const isDefinitions = objects.some(({ kind }) => kind === 'CustomResourceDefinition');
    const waits =
      isDefinitions && steps.length > 0 ? [write('wait until they are served', { act: 'await-definitions' })] : [];
    stages.push(
      ...(steps.length > 0 ? [{ title, steps }] : []),
      ...(waits.length > 0 ? [{ title, steps: waits }] : []),
    );
    if (title === 'Namespace') {
      const text = 'start a pod on each node that looks at configurations of other plugins, kernel and ports';
      stages.push({ title: 'Check of the nodes', steps: [write(text, { act: 'check-nodes' })] });
    }
    if (title === 'Configuration' && settings.datastore.type === 'kvv3' && settings.pools.length > 0) {
      const names = settings.pools.map(({ metadata, spec }) => `${metadata.name} (${spec.cidr})`).join(', ');
      stages.push({
        title: 'Pools in etcd',
        steps: [write(`create unless there is one: ${names}`, { act: 'create-pools' })],
      });
    }
  }
  if (method === 'chart') {
    stages.push({ title: 'Chart', steps: [write(`helm upgrade --install ${CHART}`, { act: 'helm' })] });
  }
  stages.push({ title: 'Wait', steps: waitSteps(target) });
  if (proof === 'run' && settings.variant !== 'policy-only') {
    const text =
      'start a pair of pods on each node, which reach the pods of every node and a Service; then remove them';
    stages.push({ title: 'Proof of the network', steps: [write(text, { act: 'prove' })] });
  }
  return { stages, notes };
}

function waitSteps({ method, settings }: ClusterTarget): Stage<ClusterAct>['steps'] {
  const workload = (kind: WorkloadName['kind'], name: string): ClusterAct => ({
    act: 'await-workload',
    workload: { kind, name },
  });
  const isManaged = method !== 'manifest';
  const acts: readonly (readonly [string, ClusterAct])[] = [
    ...(isManaged ? ([[`until ${OPERATOR} runs`, workload('Deployment', OPERATOR)]] as const) : []),
    ...(isManaged ? ([['until the installation is available', { act: 'await-installation' }]] as const) : []),
    [`until ${AGENT_SET} runs on every node`, workload('DaemonSet', AGENT_SET)],
    ...(settings.spec.calicoNetwork.bgp === 'Enabled'
      ? ([[`until ${BIRD_SET} runs on every node`, workload('DaemonSet', BIRD_SET)]] as const)
      : []),
    [`until ${CONTROLLERS} runs`, workload('Deployment', CONTROLLERS)],
    ['until every node is ready', { act: 'await-nodes' }],
  ];
  return acts.map(([text, act]) => write(text, act));
}

function write(text: string, act: ClusterAct): Stage<ClusterAct>['steps'][number] {
  return { ...act, kind: 'write', text };
}
