import { crdManifests } from './definitions/crd-manifests.ts';
import type { Manifest } from '../../model/manifest.ts';
import { ADMISSION_POLICIES, admissionObjects } from './admission/admission-objects.ts';
import { INSTALLATION_NAME } from '../../model/installation.ts';
import { agentDaemonSet } from './agent-daemon-set.ts';
import { birdDaemonSet } from './bird-daemon-set.ts';
import { conflistOf } from './conflist-of.ts';
import { controllersDeployment } from './controllers-deployment.ts';
import { BIN_DIR, CONF_DIR } from '../places.ts';
import { ADMISSION_KEY, CONFIG_MAP, FOLDER_VARIABLES, INSTALLATION_KEY, SYSTEM_NAMESPACE } from './names.ts';
import { flowControlObjects } from './flow-control.ts';
import { objectLabels, metadataOf } from './pod-template.ts';
import { roleObjects } from './rights/role-objects.ts';
import type { ClusterSettings } from './settings.ts';
import { typhaObjects } from './typha-deployment.ts';

/** A stage of an installation. The next one begins when the objects of this one are in use. */
export interface ObjectStage {
  readonly stage: 'definitions' | 'rights' | 'admission' | 'configuration' | 'controllers' | 'typha' | 'nodes';
  readonly objects: readonly Manifest[];
}

/**
 * Returns every object of an installation in the cluster, in the order in which they are applied: nothing before the last stage
 * is noticed by pods or by agents of an earlier release. Pure.
 */
export function clusterObjects(settings: ClusterSettings): readonly ObjectStage[] {
  const { release, datastore, spec, pools } = settings;
  const isOrch = datastore.type === 'orch';
  const config = configMap(settings);
  return [
    { stage: 'definitions', objects: isOrch ? crdManifests() : [] },
    {
      stage: 'rights',
      objects: [namespaceObject(release), ...roleObjects(settings), ...flowControlObjects(release)],
    },
    { stage: 'admission', objects: admissionStage(settings) },
    { stage: 'configuration', objects: [config, ...(isOrch ? pools.map(poolObject) : [])] },
    { stage: 'controllers', objects: [controllersDeployment(settings)] },
    // A server serves agents of the release before as well: it is replaced before them.
    { stage: 'typha', objects: typhaObjects(settings) },
    {
      stage: 'nodes',
      objects: [...(spec.calicoNetwork.bgp === 'Enabled' ? [birdDaemonSet(settings)] : []), agentDaemonSet(settings)],
    },
  ];
}

/** Roles are there first: a policy asks who has them. */
function admissionStage({ spec, release }: ClusterSettings): readonly Manifest[] {
  if (spec.admissionPolicies === 'Disabled') return [];
  return ADMISSION_POLICIES.flatMap((policy) => admissionObjects(policy, objectLabels(policy.name, release)));
}

/** Every pod of netplug is privileged or uses the network of its node. */
export function namespaceObject(release: string): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name: SYSTEM_NAMESPACE,
      labels: {
        ...objectLabels(SYSTEM_NAMESPACE, release),
        'pod-security.kubernetes.io/enforce': 'privileged',
        'pod-security.kubernetes.io/enforce-version': 'latest',
      },
    },
  };
}

/** With etcd, the pools are in it as well: they are in the ConfigMap for those who apply a manifest. */
function configMap(settings: ClusterSettings): Manifest {
  const { variant, release, spec, isOperated } = settings;
  const data = {
    ...(variant === 'policy-only' ? {} : { conflist: `${JSON.stringify(conflistOf(settings), undefined, 2)}\n` }),
    // Not in the DaemonSet: agents need no restart to be named another way out.
    ...(isOperated ? { [INSTALLATION_KEY]: INSTALLATION_NAME } : {}),
    // An upgrade adds the policies otherwise.
    ...(spec.admissionPolicies === 'Disabled' ? { [ADMISSION_KEY]: spec.admissionPolicies } : {}),
    // A purge that follows the removal of the agents finds them here.
    ...(spec.cni.binDir === BIN_DIR ? {} : { [FOLDER_VARIABLES.binDir]: spec.cni.binDir }),
    ...(spec.cni.confDir === CONF_DIR ? {} : { [FOLDER_VARIABLES.confDir]: spec.cni.confDir }),
  };
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: metadataOf(CONFIG_MAP, release), data };
}

function poolObject({ apiVersion, kind, metadata, spec }: ClusterSettings['pools'][number]): Manifest {
  return { apiVersion, kind, metadata, spec };
}
