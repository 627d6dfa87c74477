// Nodes in an API server that kwok keeps alive: their objects change with each heartbeat as those of kubelets do.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { program } from '../../test/support/components.ts';
import { here } from '../../test/support/here.ts';
import type { OrchApiServer } from '../../test/support/orch-datastore.ts';

export interface SimulatedNodes extends AsyncDisposable {
  /** Makes nodes until there are so many, each as its kubelet and its agent describe it. */
  growTo(count: number): Promise<void>;
  /** Starts the heartbeats of all nodes, or stops them. */
  beat(isOn: boolean): Promise<void>;
}

export const BEAT_MS = 10_000;
/** Requests under way while nodes are made. */
const AT_ONCE = 8;
const MERGE = 'application/merge-patch+json';
const SIMULATED = { 'netplug.io/simulated': 'true' };

/** Renews the status of a node with a little jitter; kwok itself renews the Lease four times in its duration. */
const CONFIG = `apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: heartbeat
spec:
  resourceRef:
    apiGroup: v1
    kind: Node
  selector:
    matchExpressions:
      - key: .status.phase
        operator: In
        values: [Running]
  delay:
    durationMilliseconds: ${String(BEAT_MS - 500)}
    jitterDurationMilliseconds: ${String(BEAT_MS + 500)}
  next:
    statusTemplate: |
      {{ $now := Now }}
      conditions:
      {{ range NodeConditions }}
      - lastHeartbeatTime: {{ $now | Quote }}
        lastTransitionTime: "2026-01-01T00:00:00Z"
        message: {{ .message | Quote }}
        reason: {{ .reason | Quote }}
        status: {{ .status | Quote }}
        type: {{ .type | Quote }}
      {{ end }}
  immediateNextStage: true
`;

/** The status of a node as a kubelet writes it, some 5 kB. */
const STATUS = {
  phase: 'Running',
  conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'kubelet is posting ready status' }],
  capacity: { cpu: '8', memory: '32Gi', pods: '110' },
  allocatable: { cpu: '8', memory: '32Gi', pods: '110' },
  images: Array.from({ length: 20 }, (_, index) => ({
    names: [
      `registry.example/image-${String(index)}@sha256:${'0'.repeat(64)}`,
      `registry.example/image-${String(index)}:v1`,
    ],
    sizeBytes: 100_000_000,
  })),
};

export async function openSimulatedNodes(server: OrchApiServer): Promise<SimulatedNodes> {
  const config = join(server.dir, 'kwok.yaml');
  await writeFile(config, CONFIG);
  const kwok = await here.start([
    program('kwok'),
    `--kubeconfig=${server.kubeconfig}`,
    `--config=${config}`,
    '--manage-nodes-with-annotation-selector=netplug.io/simulated=true',
    `--node-lease-duration-seconds=${String((4 * BEAT_MS) / 1000)}`,
  ]);
  let size = 0;
  return {
    growTo: async (count) => {
      while (size < count) {
        const names = Array.from({ length: Math.min(AT_ONCE, count - size) }, (_, index) => size + index);
        await Promise.all(names.map(async (index) => makeNode(server, index)));
        size += names.length;
      }
    },
    beat: async (isOn) => (isOn ? kwok.resume() : kwok.pause()),
    [Symbol.asyncDispose]: async () => {
      await kwok.resume();
      await kwok.stop('KILL');
    },
  };
}

async function makeNode(server: OrchApiServer, index: number): Promise<void> {
  const name = `simulated-${String(index)}`;
  const address = `172.20.${String(index >> 8)}.${String(index & 255)}`;
  const mac = `0a:00:00:00:${[index >> 8, index & 255].map((byte) => byte.toString(16).padStart(2, '0')).join(':')}`;
  const labels = { 'kubernetes.io/hostname': name, 'kubernetes.io/os': 'linux', 'kubernetes.io/arch': 'amd64' };
  const annotations = {
    ...SIMULATED,
    'netplug/IPv4Address': `${address}/16`,
    'netplug/VXLANTunnelMACAddr': mac,
  };
  const node = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels, annotations } };
  const { metadata } = await server.call('POST', '/api/v1/nodes', { body: node });
  const addresses = [{ type: 'InternalIP', address }];
  const status = { ...STATUS, addresses };
  await server.call('PATCH', `/api/v1/nodes/${name}/status`, { body: { status }, type: MERGE });
  const ownerReferences = [{ apiVersion: 'v1', kind: 'Node', name, uid: metadata.uid }];
  const published = {
    apiVersion: 'netplug.io/v3',
    kind: 'NetplugNode',
    metadata: { name, labels, ownerReferences },
    spec: { addresses, bgp: { ipv4Address: `${address}/16` }, vxlanTunnelMACAddr: mac },
  };
  await server.call('POST', '/apis/netplug.io/v3/netplugnodes', { body: published });
}
