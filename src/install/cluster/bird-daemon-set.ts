import { RUN } from './agent-daemon-set.ts';
import { BIRD_SET } from './names.ts';
import { hostMounts, hostVolumes } from './pod-template.ts';
import type { Manifest } from '../../model/manifest.ts';
import type { ClusterSettings } from './settings.ts';
import { nodeDaemonSet, placementOf } from './node-daemon-set.ts';

/**
 * Returns the DaemonSet of BIRD. It is one of its own because a runtime ends every process of a container: sessions must
 * outlive the agent. Its pods are replaced only when they are deleted.
 */
export function birdDaemonSet(settings: ClusterSettings): Manifest {
  const bird = {
    name: 'bird',
    image: settings.images.node,
    command: ['netplug-bird'],
    more: {
      securityContext: {
        capabilities: { drop: ['ALL'], add: ['NET_ADMIN', 'NET_BIND_SERVICE', 'NET_RAW', 'NET_BROADCAST'] },
      },
      volumeMounts: hostMounts([RUN]),
    },
  };
  return nodeDaemonSet(settings, {
    name: BIRD_SET,
    updateStrategy: { type: 'OnDelete' },
    account: 'default',
    containers: [bird],
    volumes: hostVolumes([RUN]),
    override: placementOf(settings),
    more: { automountServiceAccountToken: false },
  });
}
