import { RUN } from './agent-daemon-set.ts';
import { BIRD_SET } from './names.ts';
import { hostMounts, hostVolumes, metadataOf, podTemplate, selectorOf } from './pod-template.ts';
import type { Manifest } from '../../model/manifest.ts';
import type { ClusterSettings } from './settings.ts';

/**
 * Returns the DaemonSet of BIRD. It is one of its own because a runtime ends every process of a container: sessions must
 * outlive the agent. Its pods are replaced only when they are deleted.
 */
export function birdDaemonSet({ images, release, spec }: ClusterSettings): Manifest {
  const bird = {
    name: 'bird',
    image: images.node,
    command: ['netplug-bird'],
    env: [],
    more: {
      securityContext: {
        capabilities: { drop: ['ALL'], add: ['NET_ADMIN', 'NET_BIND_SERVICE', 'NET_RAW', 'NET_BROADCAST'] },
      },
      volumeMounts: hostMounts([RUN]),
    },
  };
  const { tolerations, nodeSelector } = spec.node;
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: metadataOf(BIRD_SET, release),
    spec: {
      selector: { matchLabels: selectorOf(BIRD_SET) },
      updateStrategy: { type: 'OnDelete' },
      template: podTemplate({
        name: BIRD_SET,
        release,
        account: 'default',
        priorityClass: 'system-node-critical',
        pullSecrets: images.pullSecrets,
        initContainers: [],
        containers: [bird],
        volumes: hostVolumes([RUN]),
        override: {
          ...(tolerations === undefined ? {} : { tolerations }),
          ...(nodeSelector === undefined ? {} : { nodeSelector }),
        },
        more: { automountServiceAccountToken: false },
      }),
    },
  };
}
