import * as v from 'valibot';
import { NODE_NOTES } from '../../model/notes.ts';
import type { ApiObject } from '../objects.ts';
import type { OrchApi } from '../orch-api.ts';
import { NODES } from '../paths.ts';
import { findCondition } from './conditions.ts';

const text = v.nullish(v.string(), '');
const list = <const S extends v.GenericSchema>(item: S) => v.nullish(v.array(item), []);
const node = v.looseObject({
  spec: v.nullish(
    v.looseObject({
      unschedulable: v.nullish(v.boolean(), false),
      podCIDR: text,
      podCIDRs: list(v.string()),
      taints: list(v.looseObject({ key: text, value: text, effect: text })),
    }),
    {},
  ),
  status: v.nullish(
    v.looseObject({
      nodeInfo: v.nullish(
        v.looseObject({
          operatingSystem: text,
          kubeletVersion: text,
          architecture: text,
          kernelVersion: text,
          containerRuntimeVersion: text,
        }),
        {},
      ),
      addresses: list(v.looseObject({ type: text, address: text })),
    }),
    {},
  ),
});
const lease = v.looseObject({
  metadata: v.looseObject({ managedFields: list(v.looseObject({ time: text })) }),
  spec: v.looseObject({ renewTime: v.string() }),
});

/** Where the agent writes under which address other nodes reach the node, with the prefix of its network. */
const PUBLISHED = [NODE_NOTES.ipv4Address, NODE_NOTES.ipv6Address];

export interface NodeState {
  readonly name: string;
  readonly os: string;
  readonly isReady: boolean;
  /** Reason and message of the condition Ready, when it is not True. */
  readonly notReady?: string | undefined;
  readonly isSchedulable: boolean;
  readonly kubelet: string;
  readonly architecture: string;
  readonly kernel: string;
  readonly runtime: string;
  /** Those first that the agent has published, which have the prefix of their network. */
  readonly addresses: readonly string[];
  readonly podCidrs: readonly string[];
  /** Taints as `key=value:effect`. */
  readonly taints: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  /** Time by which the clock of the node is ahead of that of the API server; undefined when it cannot be told. */
  readonly clockAheadMs?: number | undefined;
}

/** Reads the nodes that run Linux. @throws store/* */
export async function readNodes(api: OrchApi, signal: AbortSignal): Promise<readonly NodeState[]> {
  return (await api.list(NODES, {}, signal)).map((object) => nodeStateOf(object)).filter(({ os }) => os === 'linux');
}

/** Returns the state of a Node. The lease of its kubelet shows its clock. Pure. */
export function nodeStateOf(object: ApiObject, kubelets?: ApiObject): NodeState {
  const read = v.safeParse(node, object);
  const { spec, status } = read.success ? read.output : v.parse(node, {});
  const { nodeInfo: info, addresses } = status;
  const labels = object.metadata.labels ?? {};
  const ready = findCondition(object, 'Ready');
  const isReady = ready?.status === 'True';
  const single = spec.podCIDR === '' ? [] : [spec.podCIDR];
  return {
    name: object.metadata.name,
    // A kubelet says it late.
    os: info.operatingSystem === '' ? (labels['kubernetes.io/os'] ?? 'linux') : info.operatingSystem,
    isReady,
    ...(isReady ? {} : { notReady: ready === undefined ? 'no condition' : `${ready.reason}: ${ready.message}` }),
    isSchedulable: !spec.unschedulable,
    kubelet: info.kubeletVersion,
    architecture: info.architecture,
    kernel: info.kernelVersion,
    runtime: info.containerRuntimeVersion,
    addresses: [
      ...PUBLISHED.flatMap((note) => object.metadata.annotations?.[note] ?? []),
      ...addresses.filter(({ type }) => type.endsWith('IP')).map(({ address }) => address),
    ],
    podCidrs: spec.podCIDRs.length > 0 ? spec.podCIDRs : single,
    taints: spec.taints.map(({ key, value, effect }) => `${key}=${value}:${effect}`),
    labels,
    clockAheadMs: kubelets === undefined ? undefined : aheadOf(kubelets),
  };
}

/** The kubelet writes the time of its node, and the API server notes its own beside it in whole seconds. */
function aheadOf(object: ApiObject): number | undefined {
  const read = v.safeParse(lease, object);
  if (!read.success) return undefined;
  const { metadata, spec } = read.output;
  const server = Math.max(...metadata.managedFields.map(({ time }) => Date.parse(time)));
  const ahead = Date.parse(spec.renewTime) - server;
  return Number.isFinite(ahead) ? ahead : undefined;
}
