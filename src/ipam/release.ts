import { backOff } from '../base/retry.ts';
import type { Change, NodeView } from '../datastore/store.ts';
import type { Allocation } from '../model/ip-block.ts';
import type { Attachment, NodeName } from '../model/names.ts';
import type { EndpointId, WorkloadEndpoint } from '../model/workload-endpoint.ts';
import type { IpamPorts } from './assign.ts';
import { planRelease } from './plan-release.ts';

export interface ReleasedEndpoint {
  readonly id: EndpointId;
  readonly isSame: (endpoint: WorkloadEndpoint) => boolean;
}

export interface ReleaseRequest {
  readonly node: NodeName;
  /** Which allocations of this node go. */
  readonly which: (allocation: Allocation) => boolean;
  /** The endpoint that goes with them, if it still describes the same attachment. */
  readonly endpoint?: ReleasedEndpoint;
  /** A view read before, to save the first read. */
  readonly view?: NodeView;
}

/** The endpoint of an attachment: one that a newer sandbox of the same pod has written under its name is another's. */
export function endpointOf(id: EndpointId, { containerId, network }: Attachment): { endpoint: ReleasedEndpoint } {
  return { endpoint: { id, isSame: ({ spec }) => spec.containerID === containerId && spec.network === network } };
}

/** Frees what the node holds and `which` names; nothing to free is success. Returns the allocations freed. */
export async function release(
  ports: IpamPorts,
  request: ReleaseRequest,
  signal: AbortSignal,
): Promise<readonly Allocation[]> {
  const { node, which, endpoint } = request;
  for (let attempt = 0; ; attempt += 1) {
    await backOff(ports, attempt, signal);
    const view =
      (attempt === 0 ? request.view : undefined) ?? (await ports.store.readNodeView(node, endpoint?.id, signal));
    const blocks = [...view.owned, ...view.borrowed];
    const changes: Change[] = planRelease(blocks, (allocation) => allocation.node === node && which(allocation));
    if (view.endpoint !== undefined && endpoint?.isSame(view.endpoint.value) === true) {
      changes.push({ kind: 'delete-endpoint', before: view.endpoint });
    }
    if (changes.length === 0 || (await ports.store.commit(changes, signal)) === 'committed') {
      return blocks
        .flatMap(({ value }) => [...value.slots.values()])
        .filter((held) => held.node === node && which(held));
    }
  }
}
