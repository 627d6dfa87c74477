import { DIGESTS_VARIABLE, encodeDigests, type ImageDigests } from '../../base/image-digests.ts';
import type { Manifest } from '../../model/manifest.ts';
import type { ComponentOverride } from '../../model/installation.ts';
import { namespaceObject } from './cluster-objects.ts';
import { digestsOf, HEALTH_PORTS, OPERATOR, SYSTEM_NAMESPACE } from './names.ts';
import { replicatedDeployment } from './replicated-deployment.ts';
import { operatorRoleObjects } from './rights/role-objects.ts';
import type { Images } from './settings.ts';

export interface OperatorSettings {
  readonly release: string;
  /** Those of the images of the release, which the operator cannot know itself. */
  readonly digests?: ImageDigests;
  readonly images: Images;
  /** Where its pods run; the namespace of netplug unless given. What it installs is always in that one. */
  readonly namespace?: string;
  readonly replicas: 1 | 2;
  readonly override: ComponentOverride;
}

/**
 * Returns every object that the operator needs, in order: namespace, account, roles, bindings and Deployment. The definition of
 * Installation, which users need before they write one, is among `crdManifests()`.
 */
export function operatorObjects(settings: OperatorSettings): readonly Manifest[] {
  const { release, namespace = SYSTEM_NAMESPACE } = settings;
  return [namespaceObject(release), ...operatorRoleObjects(release, namespace), deployment(settings, namespace)];
}

/** Returns a Deployment that works without the network that it installs: on its node's, and before nodes are ready. */
function deployment(
  { release, digests = digestsOf(release), images, replicas, override }: OperatorSettings,
  namespace: string,
): Manifest {
  return replicatedDeployment({
    name: OPERATOR,
    release,
    image: images.tools,
    pullSecrets: images.pullSecrets,
    env: { [DIGESTS_VARIABLE]: digests.size === 0 ? undefined : encodeDigests(digests) },
    port: HEALTH_PORTS.operator,
    replicas,
    override,
    metadata: { namespace },
  });
}
