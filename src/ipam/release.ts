import { isNetplugError } from '../base/errors.ts';
import { backOffConflict } from '../base/back-off.ts';
import type { Change, NodeView } from '../datastore/store.ts';
import type { Allocation } from '../model/ip-block.ts';
import type { Attachment, NodeName } from '../model/names.ts';
import type { EndpointId, WorkloadEndpoint } from '../model/workload-endpoint.ts';
import type { IpamPorts } from './assign.ts';
import { locked } from './locked.ts';
import { planRelease, type ReleasePlan } from './plan-release.ts';

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

/**
 * Frees what the node holds and `which` names; nothing to free is success. Returns the allocations freed.
 * @throws store/locked
 */
export async function release(
  ports: IpamPorts,
  request: ReleaseRequest,
  signal: AbortSignal,
): Promise<readonly Allocation[]> {
  return (await releaseFrom(ports, request, signal)).freed;
}

/**
 * The same for an attachment that goes for good. What memory does not show of it may have been written by somebody else
 * a moment ago: then the datastore itself is asked, as far as it answers.
 */
export async function releaseForGood(
  ports: IpamPorts,
  request: ReleaseRequest,
  signal: AbortSignal,
): Promise<readonly Allocation[]> {
  const { freed, changes } = await releaseFrom(ports, request, signal);
  const { beneath } = ports.store;
  const isWhole = request.endpoint === undefined || changes.some(({ kind }) => kind === 'delete-endpoint');
  if (beneath === undefined || (freed.length > 0 && isWhole)) return freed;
  const { view: _, ...anew } = request;
  try {
    return [...freed, ...(await releaseFrom({ ...ports, store: beneath }, anew, signal)).freed];
  } catch (cause) {
    if (!isNetplugError(cause, 'store/unavailable')) throw cause;
    ports.log.warning('datastore not asked for what memory does not show', {
      node: request.node,
      reason: cause.message,
    });
    return freed;
  }
}

async function releaseFrom(
  ports: IpamPorts,
  request: ReleaseRequest,
  signal: AbortSignal,
): Promise<Pick<ReleasePlan, 'changes' | 'freed'>> {
  const { node, endpoint } = request;
  const whole = { changes: new Array<Change>(), freed: new Array<Allocation>() };
  let view = request.view;
  for (let conflicts = 0; ;) {
    await backOffConflict(ports, conflicts, signal);
    view ??= await ports.store.readNodeView(node, endpoint?.id, signal);
    const plan = planChanges(request, view);
    if (view.isLocked && plan.freed.length > 0) throw locked('release an address', node);
    if (plan.changes.length === 0) return whole;
    if ((await ports.store.commit(plan.changes, signal)) === 'committed') {
      whole.changes.push(...plan.changes);
      whole.freed.push(...plan.freed);
      if (!plan.isPartial) return whole;
    } else conflicts += 1;
    view = undefined;
  }
}

function planChanges({ node, which, endpoint }: ReleaseRequest, view: NodeView): ReleasePlan {
  const blocks = [...view.owned, ...view.borrowed];
  const plan = planRelease(blocks, (allocation) => allocation.node === node && which(allocation));
  if (view.endpoint !== undefined && endpoint?.isSame(view.endpoint.value) === true) {
    plan.changes.push({ kind: 'delete-endpoint', before: view.endpoint });
  }
  return plan;
}
