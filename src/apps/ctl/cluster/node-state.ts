import type { NodeState } from '../../../checks/cluster-facts.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { NODES } from '../../../kube/paths.ts';
import { listIn, recordIn, textIn } from '../../../upgrade/cluster/objects-in.ts';

/** Reads the nodes that run Linux. @throws store/* */
export async function readNodes(api: OrchApi, signal: AbortSignal): Promise<readonly NodeState[]> {
  return (await api.list(NODES, {}, signal)).map((node) => nodeStateOf(node)).filter(({ os }) => os === 'linux');
}

/** Returns the state of a Node. The lease of its kubelet shows its clock. */
export function nodeStateOf(node: ApiObject, lease?: ApiObject): NodeState {
  const [spec, status] = [recordIn(node, 'spec'), recordIn(node, 'status')];
  const info = recordIn(status, 'nodeInfo');
  const os = textIn(info, 'operatingSystem');
  const ready = listIn(status, 'conditions').find((condition) => condition['type'] === 'Ready');
  const isReady = ready?.['status'] === 'True';
  const labels = node.metadata.labels ?? {};
  const podCidrs = Array.isArray(spec['podCIDRs']) ? spec['podCIDRs'] : [spec['podCIDR'] ?? []].flat();
  return {
    name: node.metadata.name,
    // A new Node has the label before its kubelet has reported.
    os: os === '' ? (labels['kubernetes.io/os'] ?? 'linux') : os,
    isReady,
    ...(isReady
      ? {}
      : { notReady: ready === undefined ? 'no condition' : `${textIn(ready, 'reason')}: ${textIn(ready, 'message')}` }),
    isSchedulable: spec['unschedulable'] !== true,
    kubelet: textIn(info, 'kubeletVersion'),
    architecture: textIn(info, 'architecture'),
    kernel: textIn(info, 'kernelVersion'),
    runtime: textIn(info, 'containerRuntimeVersion'),
    addresses: listIn(status, 'addresses')
      .filter((address) => textIn(address, 'type').endsWith('IP'))
      .map((address) => textIn(address, 'address')),
    podCidrs: podCidrs.map(String),
    taints: listIn(spec, 'taints').map(
      (taint) => `${textIn(taint, 'key')}=${textIn(taint, 'value')}:${textIn(taint, 'effect')}`,
    ),
    labels,
    clockAheadMs: lease === undefined ? undefined : aheadOf(lease),
  };
}

/** The kubelet writes the time of its node, and the API server notes its own beside it in whole seconds. */
function aheadOf(lease: ApiObject): number | undefined {
  const times = listIn(recordIn(lease, 'metadata'), 'managedFields').map((entry) => Date.parse(textIn(entry, 'time')));
  const [own, server] = [Date.parse(textIn(recordIn(lease, 'spec'), 'renewTime')), Math.max(...times)];
  return Number.isFinite(own) && Number.isFinite(server) ? own - server : undefined;
}
