import type { Manifest } from '../../model/manifest.ts';
import { CONTROLLERS } from '../../model/automatic-host-endpoint.ts';
import { HEALTH_PORTS, KV_CERTIFICATES } from './names.ts';
import { replicatedDeployment } from './replicated-deployment.ts';
import type { ClusterSettings } from './settings.ts';
import { datastoreEnvironment, hasCertificates } from './datastore-environment.ts';

const KV_DIR = '/etc/netplug/kv';
/** Group of the image, which can read the certificates. */
const GROUP = 65_532;

/**
 * Returns the Deployment of the controllers. They use the network of their node, so that addresses can be released when no pod
 * gets one any more. Each replica therefore needs a node of its own.
 */
export function controllersDeployment(settings: ClusterSettings): Manifest {
  const { images, release, spec } = settings;
  const certificates = { name: 'kv-certificates', secret: { secretName: KV_CERTIFICATES, defaultMode: 0o440 } };
  return replicatedDeployment({
    name: CONTROLLERS,
    release,
    image: images.tools,
    pullSecrets: images.pullSecrets,
    env: datastoreEnvironment(settings, KV_DIR),
    port: HEALTH_PORTS.controllers,
    replicas: spec.controlPlaneReplicas,
    override: spec.controllers,
    ...(hasCertificates(settings)
      ? {
          container: { volumeMounts: [{ name: certificates.name, mountPath: KV_DIR, readOnly: true }] },
          volumes: [certificates],
        }
      : {}),
    podSecurity: { fsGroup: GROUP },
  });
}
