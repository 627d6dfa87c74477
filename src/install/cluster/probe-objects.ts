import * as v from 'valibot';
import { given } from '../../base/given.ts';
import type { Manifest } from '../../model/manifest.ts';
import { urlHost } from '../../net/address.ts';
import { BIN_DIR, CONF_DIR } from '../places.ts';
import { HEALTH_PORTS, SYSTEM_NAMESPACE, TYPHA_PORTS } from './names.ts';
import { metadataOf, objectLabels, selectorOf } from './pod-template.ts';

/** Name of the Service and the policy that prove the network. */
export const PROBE = 'netplug-probe';
const PROBE_SERVER = `${PROBE}-server`;
const PROBE_CLIENT = `${PROBE}-client`;
/** Names of the pods that prove the network. */
export const PROBE_PODS = [PROBE_CLIENT, PROBE_SERVER];
/** Name of the pods that check the nodes before an installation. */
export const NODE_CHECK = 'netplug-node-check';
export const PROBE_PORT_NUMBER = 8080;
/** The servers answer on this port as well, unless the policy of the proof is in force. */
const CLOSED_PORT = 8081;
/** Names of the pods between which datagrams flow during an upgrade. */
const FLOW_SERVER = 'netplug-flow-server';
const FLOW_CLIENT = 'netplug-flow-client';
/** The clients end first: without a server they would have lost something. */
export const FLOW_PODS = [FLOW_CLIENT, FLOW_SERVER];
/** Time for which datagrams flow at most. */
const FLOW_SECONDS = 4 * 3600;
/** Servers start before their clients, and must end after them. */
const OUTLIVED_SECONDS = 1800;
const command = v.looseObject({ command: v.optional(v.array(v.string()), []) });
const FlowPod = v.looseObject({ spec: v.looseObject({ containers: v.array(command) }) });
/** Option of a client: a URL to which no full-size packets go. */
const SMALL_ONLY = '--small-only';
const USER = 65_532;

export interface ProbeImage {
  readonly release: string;
  readonly image: string;
  readonly pullSecrets: readonly string[];
}

interface OnNode extends ProbeImage {
  readonly node: string;
}

/** What is in this file, the kubelet writes to the status of the container, also of one that succeeds. */
const TERMINATION_LOG = '/dev/termination-log';

/** Returns the pod that checks a node. It uses the network of the node, because there is no other yet. */
export function nodeCheckPod(
  on: OnNode,
  {
    keepsPlugin,
    hasAgent,
    hasFanOut,
    confDir,
    binDir,
  }: {
    readonly keepsPlugin: boolean;
    readonly hasAgent: boolean;
    readonly hasFanOut: boolean;
    readonly confDir: string;
    readonly binDir: string;
  },
): Manifest {
  const own = [...Object.values(HEALTH_PORTS), ...(hasFanOut ? Object.values(TYPHA_PORTS) : [])];
  const ports = hasAgent ? [] : own.flatMap((port) => ['--port', String(port)]);
  const folders = [
    ...(confDir === CONF_DIR ? [] : ['--conf-dir', confDir]),
    ...(binDir === BIN_DIR ? [] : ['--bin-dir', binDir]),
  ];
  const flags = [...(keepsPlugin ? ['--keeps-plugin'] : []), '--message-file', TERMINATION_LOG];
  const command = ['netplugctl', 'probe', 'node', ...ports, ...folders, ...flags];
  const folder = { name: 'cni-conf', hostPath: { path: confDir, type: 'DirectoryOrCreate' } };
  return pod(NODE_CHECK, on, {
    hostNetwork: true,
    // It reads how the runtime of the node is configured.
    hostPID: true,
    volumes: [folder],
    container: {
      command,
      securityContext: { privileged: true },
      volumeMounts: [{ name: folder.name, mountPath: confDir, readOnly: true }],
    },
  });
}

/** Returns one of each kind of object that proves the network, for the rights that it takes. */
export function probeObjects(image: ProbeImage): readonly Manifest[] {
  return [probeServerPod({ ...image, node: '' }), probeService(image.release), probePolicy(image.release)];
}

/** Returns the pod on a node that others connect to. */
export function probeServerPod(on: OnNode): Manifest {
  return serverPod(PROBE_SERVER, on, []);
}

function serverPod(name: string, on: OnNode, further: readonly string[]): Manifest {
  const ports = ['--port', String(PROBE_PORT_NUMBER), '--closed-port', String(CLOSED_PORT)];
  return pod(name, on, {
    container: {
      command: ['netplugctl', 'probe', 'serve', ...ports, ...further],
      // The kubelet reaches this port whatever the policy is, and so shows that there is something to close.
      readinessProbe: { httpGet: { path: '/', port: CLOSED_PORT }, periodSeconds: 1 },
      securityContext: UNPRIVILEGED,
    },
  });
}

/** URLs that a client connects to, and those that it must not reach. */
export interface ProbeTargets {
  readonly open: readonly string[];
  readonly closed: readonly string[];
}

/** Returns the URLs of a server: it answers requests and datagrams; with a policy in force, one port is closed. */
export function probeTargets(address: string, { hasPolicy }: { readonly hasPolicy: boolean }): ProbeTargets {
  return {
    open: [probeUrl(address), flowUrl(address)],
    closed: hasPolicy ? [`http://${urlHost(address)}:${String(CLOSED_PORT)}/`] : [],
  };
}

/** Returns the URL of a pod or Service, by address or name. */
export function probeUrl(host: string): string {
  return `http://${urlHost(host)}:${String(PROBE_PORT_NUMBER)}/`;
}

/** Returns the pod on a node that connects to all URLs. */
export function probeClientPod(on: OnNode, { open, closed }: ProbeTargets, seconds: number): Manifest {
  const forbidden = closed.flatMap((url) => ['--closed', url]);
  return pod(PROBE_CLIENT, on, {
    container: {
      command: ['netplugctl', 'probe', 'connect', '--timeout', String(seconds), ...forbidden, ...open],
      securityContext: UNPRIVILEGED,
    },
  });
}

/** Returns the policy that lets other pods reach the servers on one of their two ports alone. */
export function probePolicy(release: string): Manifest {
  const ports = ['TCP', 'UDP'].map((protocol) => ({ protocol, port: PROBE_PORT_NUMBER }));
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: metadataOf(PROBE, release),
    spec: { podSelector: { matchLabels: selectorOf(PROBE_SERVER) }, policyTypes: ['Ingress'], ingress: [{ ports }] },
  };
}

/** Returns the pod on a node that answers datagrams. */
export function flowServerPod(on: OnNode): Manifest {
  return limited(serverPod(FLOW_SERVER, on, ['--unfragmented']), FLOW_SECONDS + OUTLIVED_SECONDS);
}

/** Addresses that a pod sends datagrams to. */
export interface FlowTargets {
  readonly addresses: readonly string[];
  /** Those of them to which no full-size packets go. */
  readonly smallOnly: readonly string[];
}

/** Returns the pod on a node that sends datagrams to the addresses all the time. It fails when one is lost. */
export function flowClientPod(on: OnNode, { addresses, smallOnly }: FlowTargets): Manifest {
  const options = ['--port', String(PROBE_PORT_NUMBER), ...smallOnly.flatMap((each) => [SMALL_ONLY, flowUrl(each)])];
  const client = pod(FLOW_CLIENT, on, {
    container: {
      command: ['netplugctl', 'probe', 'flow', ...options, ...addresses.map(flowUrl)],
      readinessProbe: { httpGet: { path: '/', port: PROBE_PORT_NUMBER }, periodSeconds: 1 },
      securityContext: UNPRIVILEGED,
    },
  });
  return limited(client, FLOW_SECONDS);
}

/** Returns the URLs to which a pod sends no full-size packets. */
export function smallOnlyIn(pod: object): readonly string[] {
  const read = v.safeParse(FlowPod, pod);
  const words = read.success ? read.output.spec.containers.flatMap((each) => each.command) : [];
  return words.filter((_, at) => words[at - 1] === SMALL_ONLY);
}

function flowUrl(address: string): string {
  return `udp://${urlHost(address)}:${String(PROBE_PORT_NUMBER)}`;
}

/** The pod ends by itself when no program removes it. */
function limited(flow: Manifest, seconds: number): Manifest {
  return { ...flow, spec: { ...(flow['spec'] as Manifest), activeDeadlineSeconds: seconds } };
}

/** Returns the Service in front of all servers. */
export function probeService(release: string): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: metadataOf(PROBE, release),
    spec: { selector: selectorOf(PROBE_SERVER), ports: [{ port: PROBE_PORT_NUMBER, targetPort: PROBE_PORT_NUMBER }] },
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
  readonly hostPID?: true;
  readonly volumes?: readonly Manifest[];
  readonly container: Manifest;
}

/** The scheduler is left out: the pod belongs on that node, whatever its taints are. */
function pod(name: string, { release, image, pullSecrets, node }: OnNode, parts: PodParts): Manifest {
  const { hostNetwork, hostPID, volumes, container } = parts;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: podNameOn(name, node),
      namespace: SYSTEM_NAMESPACE,
      labels: objectLabels(name, release),
      // It keeps no autoscaler from removing the node.
      annotations: { 'cluster-autoscaler.kubernetes.io/safe-to-evict': 'true' },
    },
    spec: {
      nodeName: node,
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: 1,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      tolerations: [{ operator: 'Exists' }],
      ...(hostNetwork === true ? { hostNetwork, dnsPolicy: 'Default' } : {}),
      ...given({ hostPID }),
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
