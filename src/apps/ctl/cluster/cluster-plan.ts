import { crdManifests } from '../../../install/cluster/definitions/crd-manifests.ts';
import type { Manifest } from '../../../model/manifest.ts';
import type { InstallMethod } from '../../../install/cluster/checks/preflight-facts.ts';
import { clusterObjects, namespaceObject } from '../../../install/cluster/cluster-objects.ts';
import { AGENT_SET, BIRD_SET, OPERATOR } from '../../../install/cluster/names.ts';
import { TYPHA } from '../../../model/typha.ts';
import { operatorObjects } from '../../../install/cluster/operator-deployment.ts';
import { certificatesSecret } from '../../../install/cluster/release-manifests.ts';
import { type ClusterSettings, hasFanOut } from '../../../install/cluster/settings.ts';
import { CONTROLLERS } from '../../../model/automatic-host-endpoint.ts';
import { INSTALLATION_NAME, type InstallationSpec } from '../../../model/installation.ts';
import { API_VERSION } from '../../../model/resource.ts';
import type { Plan } from '../../../plans/plan.ts';
import { objectName, referenceOf } from '../../../kube/objects/reference.ts';
import { nodeCheckPod } from '../../../install/cluster/probe-objects.ts';
import { actStages, type ActStage } from '../../../plans/acts.ts';
import { type ClusterAct, CLUSTER_ACTS, type ClusterPorts } from './cluster-acts.ts';
import type { WorkloadName } from './wait-ready.ts';

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
  const { release } = settings;
  const namespace = namespaceObject(release);
  if (method !== 'manifest') {
    const definitions = { title: 'CustomResourceDefinitions', objects: crdManifests() };
    if (method === 'chart') return [{ title: 'Namespace', objects: [namespace] }, definitions];
    return [
      { title: 'Namespace', objects: [namespace] },
      definitions,
      { title: 'Operator', objects: operatorParts(settings) },
      { title: 'Installation', objects: [installationObject(spec)] },
    ];
  }
  const secret = certificates === undefined ? [] : [certificatesSecret(certificates, release)];
  const titles = {
    definitions: 'CustomResourceDefinitions',
    rights: 'Accounts and rights',
    admission: 'Admission policies',
    configuration: 'Configuration',
    controllers: 'Controllers',
    typha: 'Fan-out',
    nodes: 'Agents on the nodes',
  } as const;
  const stages = clusterObjects(settings).map(({ stage, objects }) => ({
    title: titles[stage],
    objects: [...(stage === 'configuration' ? secret : []), ...objects.filter(({ kind }) => kind !== 'Namespace')],
  }));
  return [{ title: 'Namespace', objects: [namespace] }, ...stages];
}

/** Returns the objects of the operator in the namespace that it shares with everything else. */
export function operatorParts({ release, images }: ClusterSettings): readonly Manifest[] {
  const all = operatorObjects({ release, images, replicas: 1, override: {} });
  return all.filter(({ kind }) => kind !== 'Namespace');
}

/** Returns the Installation of the operator. */
export function installationObject(spec: InstallationSpec): Manifest {
  return { apiVersion: API_VERSION, kind: 'Installation', metadata: { name: INSTALLATION_NAME }, spec };
}

export interface ClusterPlanFacts {
  /** Changes to those objects of `targetStages` that exist, by key. */
  readonly changes: ReadonlyMap<string, readonly unknown[]>;
  readonly notes: readonly string[];
  readonly nodes: readonly string[];
  /** Whether agents of an earlier installation run, which have the ports of netplug. */
  readonly hasAgent: boolean;
}

/** Makes the plan of an installation. Pure. */
export function clusterPlan(target: ClusterTarget, facts: ClusterPlanFacts): Plan<ClusterAct> {
  const { method, settings, spec, proof } = target;
  const stages = targetStages(target).flatMap(({ title, objects }): readonly ActStage<ClusterAct>[] => {
    const changes = objects.flatMap((object): readonly ClusterAct[] => {
      const changed = facts.changes.get(objectName(object));
      return changed?.length === 0 ? [] : [{ act: 'apply', object, verb: changed === undefined ? 'create' : 'change' }];
    });
    const names = objects.flatMap((each) =>
      each['kind'] === 'CustomResourceDefinition' ? [referenceOf(each).name] : [],
    );
    const awaits = changes.length > 0 && names.length > 0;
    const hasPools = title === 'Configuration' && settings.datastore.type === 'kvv3' && settings.pools.length > 0;
    return [
      [title, changes],
      [title, awaits ? [{ act: 'await-definitions', names }] : []],
      ['Check of the nodes', title === 'Namespace' ? [{ act: 'check-nodes', pods: checkPods(settings, facts) }] : []],
      ['Pools in etcd', hasPools ? [{ act: 'create-pools', pools: settings.pools }] : []],
    ];
  });
  const chart: ClusterAct = { act: 'install-chart', values: { installation: spec } };
  const { release, images } = settings;
  const image = { release, image: images.tools, pullSecrets: images.pullSecrets };
  const proves = proof === 'run' && settings.variant !== 'policy-only';
  return {
    stages: actStages<ClusterAct, ClusterPorts>(CLUSTER_ACTS, [
      ...stages,
      ['Chart', method === 'chart' ? [chart] : []],
      ['Wait', waits(target)],
      [
        'Proof of the network',
        proves
          ? [{ act: 'prove', nodes: facts.nodes, image, hasPolicy: settings.spec.calicoNetwork.policy === 'Enabled' }]
          : [],
      ],
    ]),
    notes: facts.notes,
  };
}

function checkPods(settings: ClusterSettings, { nodes, hasAgent }: ClusterPlanFacts): readonly Manifest[] {
  const { release, images, variant, spec } = settings;
  const { confDir, binDir } = spec.cni;
  const { node: image, pullSecrets } = images;
  const keepsPlugin = variant !== 'policy-and-networking';
  const how = { keepsPlugin, hasAgent, hasFanOut: hasFanOut(settings), confDir, binDir };
  return nodes.map((node) => nodeCheckPod({ release, image, pullSecrets, node }, how));
}

function waits({ method, settings }: ClusterTarget): readonly ClusterAct[] {
  const workload = (kind: WorkloadName['kind'], name: string): ClusterAct => ({
    act: 'await-workload',
    workload: { kind, name },
  });
  return [
    ...(method === 'manifest' ? [] : [workload('Deployment', OPERATOR), { act: 'await-installation' } as const]),
    workload('DaemonSet', AGENT_SET),
    ...(settings.spec.calicoNetwork.bgp === 'Enabled' ? [workload('DaemonSet', BIRD_SET)] : []),
    workload('Deployment', CONTROLLERS),
    ...(hasFanOut(settings) ? [workload('Deployment', TYPHA)] : []),
    { act: 'await-nodes' },
  ];
}
