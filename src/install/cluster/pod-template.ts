import { ownValue } from '../../base/own-value.ts';
import type { Manifest } from '../../model/manifest.ts';
import type { ComponentOverride } from '../../model/installation.ts';
import { SERVICES_ENDPOINT, SYSTEM_NAMESPACE } from './names.ts';

export interface EnvVar {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: Manifest;
}

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly command: readonly string[];
  readonly env?: readonly EnvVar[];
  readonly more?: Manifest;
}

export interface PodTemplate {
  readonly name: string;
  readonly release: string;
  readonly account: string;
  readonly priorityClass: 'system-node-critical' | 'system-cluster-critical';
  readonly pullSecrets: readonly string[];
  readonly initContainers?: readonly Container[];
  /** The first is the main container. */
  readonly containers: readonly Container[];
  readonly volumes: readonly Manifest[];
  readonly override: ComponentOverride;
  readonly more: Manifest;
}

/** Of the ConfigMap, these keys and no others: any further variable would reach privileged containers. */
const SERVER_ADDRESS: readonly EnvVar[] = ['KUBERNETES_SERVICE_HOST', 'KUBERNETES_SERVICE_PORT'].map((key) => ({
  name: key,
  valueFrom: { configMapKeyRef: { name: SERVICES_ENDPOINT, key, optional: true } },
}));
const TOLERATES_ALL = [{ operator: 'Exists' }];
const PARTS = { 'app.kubernetes.io/part-of': 'netplug' };

/** Returns metadata of an object of netplug. */
export function metadataOf(name: string, release: string, more: Manifest = {}): Manifest {
  return { name, namespace: SYSTEM_NAMESPACE, labels: objectLabels(name, release), ...more };
}

export function objectLabels(name: string, release: string): Readonly<Record<string, string>> {
  return { ...selectorOf(name), ...PARTS, 'app.kubernetes.io/version': release };
}

/** Returns the labels that select the pods of an object. They never change. */
export function selectorOf(name: string): Readonly<Record<string, string>> {
  return { 'app.kubernetes.io/name': name };
}

/** Returns the template of pods on the network of their node, with overrides of the user applied. */
export function podTemplate(pod: PodTemplate): Manifest {
  const { name, release, override, pullSecrets, initContainers = [] } = pod;
  return {
    metadata: {
      labels: { ...override.labels, ...objectLabels(name, release) },
      ...(override.annotations === undefined ? {} : { annotations: override.annotations }),
    },
    spec: {
      serviceAccountName: pod.account,
      hostNetwork: true,
      // The programs connect by address; the resolver of the cluster is behind the network that they make.
      dnsPolicy: 'Default',
      priorityClassName: pod.priorityClass,
      tolerations: override.tolerations ?? TOLERATES_ALL,
      nodeSelector: { 'kubernetes.io/os': 'linux', ...override.nodeSelector },
      ...(pullSecrets.length === 0 ? {} : { imagePullSecrets: pullSecrets.map((secret) => ({ name: secret })) }),
      ...(initContainers.length === 0 ? {} : { initContainers: initContainers.map((each) => container(each, {})) }),
      containers: pod.containers.map((each, index) => container(each, index === 0 ? override : {})),
      ...(pod.volumes.length === 0 ? {} : { volumes: pod.volumes }),
      ...pod.more,
    },
  };
}

/** An environment variable of the user replaces one of netplug: Kubernetes merges the list by name. */
function container(
  { name, image, command, env = [], more }: Container,
  { env: own = {}, resources }: ComponentOverride,
): Manifest {
  const variables = [
    ...[...env, ...SERVER_ADDRESS].filter((variable) => ownValue(own, variable.name) === undefined),
    ...Object.entries(own).map(([variable, value]) => ({ name: variable, value })),
  ];
  return {
    name,
    image,
    // Images have the release as tag, and are never replaced under it.
    imagePullPolicy: 'IfNotPresent',
    // The status of a failed container has the end of its output.
    terminationMessagePolicy: 'FallbackToLogsOnError',
    command,
    env: variables,
    ...more,
    ...(resources === undefined ? {} : { resources }),
  };
}

export function fieldOf(name: string, fieldPath: string): EnvVar {
  return { name, valueFrom: { fieldRef: { fieldPath } } };
}

/** Returns variables for all entries that have a value. */
export function variables(values: Readonly<Record<string, string | undefined>>): readonly EnvVar[] {
  return Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [{ name, value }]));
}

/** A folder of the node, mounted at the same path in the container. */
export interface HostFolder {
  readonly name: string;
  readonly path: string;
  readonly access?: 'read-only';
  /** Shows mounts that the node makes after the start of the container. */
  readonly propagation?: 'HostToContainer';
}

export function hostVolumes(folders: readonly HostFolder[]): readonly Manifest[] {
  return folders.map(({ name, path }) => ({ name, hostPath: { path, type: 'DirectoryOrCreate' } }));
}

export function hostMounts(folders: readonly HostFolder[]): readonly Manifest[] {
  return folders.map(({ name, path, access, propagation }) => ({
    name,
    mountPath: path,
    ...(access === undefined ? {} : { readOnly: true }),
    ...(propagation === undefined ? {} : { mountPropagation: propagation }),
  }));
}
