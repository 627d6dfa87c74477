import { given } from '../../base/given.ts';
import type { Manifest } from '../../model/manifest.ts';
import { metadataOf, type PodTemplate, podTemplate, selectorOf } from './pod-template.ts';
import type { ClusterSettings } from './settings.ts';

/** A program that has a pod on every node. */
export interface NodeProgram extends Omit<PodTemplate, 'release' | 'priorityClass' | 'pullSecrets'> {
  readonly updateStrategy: Manifest;
  readonly minReadySeconds?: number;
}

/** Returns the DaemonSet of the program. */
export function nodeDaemonSet({ images, release }: ClusterSettings, program: NodeProgram): Manifest {
  const { updateStrategy, minReadySeconds, ...pod } = program;
  const { pullSecrets } = images;
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: metadataOf(pod.name, release),
    spec: {
      selector: { matchLabels: selectorOf(pod.name) },
      updateStrategy,
      ...given({ minReadySeconds }),
      template: podTemplate({ ...pod, release, priorityClass: 'system-node-critical', pullSecrets }),
    },
  };
}

/** Returns the part of the user's edits of the agents that says on which nodes they run. */
export function placementOf({ spec }: ClusterSettings): PodTemplate['override'] {
  const { tolerations, nodeSelector } = spec.node;
  return given({ tolerations, nodeSelector });
}
