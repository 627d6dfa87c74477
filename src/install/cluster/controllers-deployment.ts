import type { Manifest } from '../../model/manifest.ts';
import { CONTROLLERS } from '../../model/automatic-host-endpoint.ts';
import { HEALTH_PORTS, KV_CERTIFICATES, SYSTEM_NAMESPACE } from './names.ts';
import { fieldOf, variables } from './pod-template.ts';
import { replicatedDeployment } from './replicated-deployment.ts';
import type { ClusterSettings } from './settings.ts';
import { datastoreEnvironment, hasCertificates } from './datastore-environment.ts';

const PORT = HEALTH_PORTS.controllers;
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
    env: [
      fieldOf('POD_NAME', 'metadata.name'),
      ...variables({
        NETPLUG_NAMESPACE: SYSTEM_NAMESPACE,
        NETPLUG_ORCHCONFIG: 'in-cluster',
        NETPLUG_HEALTH_ADDRESS: `127.0.0.1:${String(PORT)}`,
        ...datastoreEnvironment(settings, KV_DIR),
      }),
    ],
    port: PORT,
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
