import type { Manifest } from '../../model/manifest.ts';
import type { ComponentOverride } from '../../model/installation.ts';
import { type EnvVar, fieldOf, metadataOf, podTemplate, selectorOf, variables } from './pod-template.ts';
import { SYSTEM_NAMESPACE } from './names.ts';

/** User of the image. */
const USER = 65_532;

export interface ProgramDeployment {
  /** Also of its account, its program and its container. */
  readonly name: string;
  readonly release: string;
  readonly image: string;
  readonly pullSecrets: readonly string[];
  readonly env: readonly EnvVar[];
  /** Port of the health server, on the loopback address of the node. */
  readonly port: number;
  readonly replicas: number;
  readonly override: ComponentOverride;
  /** The metadata of the Deployment, besides name and labels. */
  readonly metadata?: Manifest;
  readonly container?: Manifest;
  readonly volumes?: readonly Manifest[];
  readonly podSecurity?: Manifest;
  /** How its pods are replaced. */
  readonly rollingUpdate: Manifest;
  /** Further fields of the specification of its pods. */
  readonly pod: Manifest;
}

/**
 * Returns the Deployment of a program of which one replica leads, on the network of its node. Each replica needs a node of its own,
 * because its port is one of the node; an old pod has it until it ends, and a replica that waits for the lease is ready.
 */
export function replicatedDeployment({
  env,
  ...program
}: Omit<ProgramDeployment, 'env' | 'rollingUpdate' | 'pod'> & {
  /** Those besides the variables that every such program has; none for an entry without a value. */
  readonly env: Readonly<Record<string, string | undefined>>;
}): Manifest {
  const apart = { labelSelector: { matchLabels: selectorOf(program.name) }, topologyKey: 'kubernetes.io/hostname' };
  return programDeployment({
    ...program,
    env: [
      fieldOf('POD_NAME', 'metadata.name'),
      ...variables({
        NETPLUG_NAMESPACE: SYSTEM_NAMESPACE,
        NETPLUG_ORCHCONFIG: 'in-cluster',
        NETPLUG_HEALTH_ADDRESS: `127.0.0.1:${String(program.port)}`,
        ...env,
      }),
    ],
    rollingUpdate: { maxSurge: 0, maxUnavailable: 1 },
    pod: { affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [apart] } } },
  });
}

/** Returns the Deployment of a program of the tools image, on the network of its node and without rights there. */
export function programDeployment(program: ProgramDeployment): Manifest {
  const { name, release, image, pullSecrets, env, port, replicas, override } = program;
  const probe = (path: string): Manifest => ({ httpGet: { path, port, host: '127.0.0.1' } });
  const main = {
    name,
    image,
    command: [name],
    env,
    more: {
      securityContext: {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      },
      livenessProbe: { ...probe('/healthz'), periodSeconds: 10, failureThreshold: 6 },
      readinessProbe: { ...probe('/readyz'), periodSeconds: 5 },
      ...program.container,
    },
  };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: metadataOf(name, release, program.metadata),
    spec: {
      replicas,
      strategy: { type: 'RollingUpdate', rollingUpdate: program.rollingUpdate },
      selector: { matchLabels: selectorOf(name) },
      template: podTemplate({
        name,
        release,
        account: name,
        priorityClass: 'system-cluster-critical',
        pullSecrets,
        containers: [main],
        volumes: program.volumes ?? [],
        override,
        more: {
          securityContext: { runAsNonRoot: true, runAsUser: USER, runAsGroup: USER, ...program.podSecurity },
          ...program.pod,
        },
      }),
    },
  };
}
