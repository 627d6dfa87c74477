import type { Manifest } from '../../datastore/orch/crd-manifests.ts';
import { SYSTEM_NAMESPACE } from '../../datastore/orch/role-table.ts';
import { CONF_DIR } from '../places.ts';
import { HEALTH_PORTS } from './names.ts';
import { objectLabels, selectorOf } from './pod-template.ts';

/** Name of the pods and the Service that prove the network. */
export const PROBE = 'netplug-probe';
/** Name of the pods that check the nodes before an installation. */
export const NODE_CHECK = 'netplug-node-check';
export const PROBE_PORT_NUMBER = 8080;
const USER = 65_532;

export interface ProbeImage {
  readonly release: string;
  readonly image: string;
  readonly pullSecrets: readonly string[];
}

interface OnNode extends ProbeImage {
  readonly node: string;
}

/** Returns the pod that checks a node. It uses the network of the node, because there is no other yet. */
export function nodeCheckPod(
  on: OnNode,
  { keepsPlugin, hasAgent }: { readonly keepsPlugin: boolean; readonly hasAgent: boolean },
): Manifest {
  const ports = hasAgent ? [] : Object.values(HEALTH_PORTS).flatMap((port) => ['--port', String(port)]);
  const command = ['netplugctl', 'probe', 'node', ...ports, ...(keepsPlugin ? ['--keeps-plugin'] : [])];
  const folder = { name: 'cni-conf', hostPath: { path: CONF_DIR, type: 'DirectoryOrCreate' } };
  return pod(NODE_CHECK, on, {
    hostNetwork: true,
    volumes: [folder],
    container: {
      command,
      securityContext: { privileged: true },
      volumeMounts: [{ name: folder.name, mountPath: CONF_DIR, readOnly: true }],
    },
  });
}

/** Returns the pod on a node that others connect to. */
export function probeServerPod(on: OnNode): Manifest {
  return pod(PROBE, on, {
    container: {
      command: ['netplugctl', 'probe', 'serve', '--port', String(PROBE_PORT_NUMBER)],
      readinessProbe: { httpGet: { path: '/', port: PROBE_PORT_NUMBER }, periodSeconds: 1 },
      securityContext: UNPRIVILEGED,
    },
  });
}

/** Returns the pod on a node that connects to all URLs. */
export function probeClientPod(on: OnNode, urls: readonly string[], seconds: number): Manifest {
  return pod(`${PROBE}-client`, on, {
    container: {
      command: ['netplugctl', 'probe', 'connect', '--timeout', String(seconds), ...urls],
      securityContext: UNPRIVILEGED,
    },
  });
}

/** Returns the Service in front of all servers. */
export function probeService(release: string): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: PROBE, namespace: SYSTEM_NAMESPACE, labels: objectLabels(PROBE, release) },
    spec: { selector: selectorOf(PROBE), ports: [{ port: PROBE_PORT_NUMBER, targetPort: PROBE_PORT_NUMBER }] },
  };
}

const UNPRIVILEGED = {
  runAsNonRoot: true,
  runAsUser: USER,
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
};

interface PodParts {
  readonly hostNetwork?: true;
  readonly volumes?: readonly Manifest[];
  readonly container: Manifest;
}

/** The scheduler is left out: the pod belongs on that node, whatever its taints are. */
function pod(name: string, { release, image, pullSecrets, node }: OnNode, parts: PodParts): Manifest {
  const { hostNetwork, volumes, container } = parts;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: podNameOn(name, node), namespace: SYSTEM_NAMESPACE, labels: objectLabels(name, release) },
    spec: {
      nodeName: node,
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: 1,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      tolerations: [{ operator: 'Exists' }],
      ...(hostNetwork === true ? { hostNetwork, dnsPolicy: 'Default' } : {}),
      ...(pullSecrets.length === 0 ? {} : { imagePullSecrets: pullSecrets.map((secret) => ({ name: secret })) }),
      containers: [
        {
          name: 'probe',
          image,
          imagePullPolicy: 'IfNotPresent',
          // The status of a failed container has the end of its output.
          terminationMessagePolicy: 'FallbackToLogsOnError',
          ...container,
        },
      ],
      ...(volumes === undefined ? {} : { volumes }),
    },
  };
}

export function podNameOn(name: string, node: string): string {
  return `${name}-${node}`.slice(0, 253).replace(/[^a-z0-9]+$/, '');
}
