import { isNetplugError } from '../base/errors.ts';
import { backOffConflict } from '../base/back-off.ts';
import type { Change, NodeView } from '../datastore/allocation-store.ts';
import { releaseTime } from '../model/cool-down.ts';
import { type Allocation, hasAddressOf } from '../model/ip-block.ts';
import type { Attachment, Handle, NodeName } from '../model/names.ts';
import {
  type EndpointId,
  endpointIdOf,
  holdsAddressOf,
  isOfContainer,
  type WorkloadEndpoint,
} from '../model/workload-endpoint.ts';
import type { IpamPorts } from './assign.ts';
import { lockedError } from './locked.ts';
import { planRelease, type ReleasePlan } from './plan-release.ts';

export interface ReleasedEndpoint {
  readonly id: EndpointId;
  readonly isSame: (endpoint: WorkloadEndpoint) => boolean;
  /** As in a change that deletes an endpoint. */
  readonly unlessHeld?: boolean;
}

export interface ReleaseRequest {
  readonly node: NodeName;
  /** Selects the allocations of this node to release. */
  readonly which: (allocation: Allocation) => boolean;
  /** The handle of all that `which` selects, where it is known: saves reading every allocation of the node. */
  readonly handle?: Handle;
  /** The endpoint to delete with them, if it still describes the same attachment. */
  readonly endpoint?: ReleasedEndpoint;
  /** The addresses belong to an ADD that failed: no pod has ever used them, and they need not cool down. */
  readonly isUndo?: boolean;
  /** A view that was read already, to save the first read. */
  readonly view?: NodeView;
}

/** Selects the endpoint only if this attachment wrote it: a newer sandbox of the same pod may have replaced it. */
export function endpointOf(id: EndpointId, { containerId, network }: Attachment): { endpoint: ReleasedEndpoint } {
  return { endpoint: { id, isSame: (found) => isOfContainer(found, { containerId, network }) } };
}

/** Selects the endpoint that an undone call has written, unless another call for the attachment has replaced it or uses it. */
export function undoneEndpoint(written: WorkloadEndpoint): { endpoint: ReleasedEndpoint } {
  const { containerID: containerId, network, ipNetworks } = written.spec;
  const isSame = (found: WorkloadEndpoint): boolean => isOfContainer(found, { containerId, network, ipNetworks });
  return { endpoint: { id: endpointIdOf(written), isSame, unlessHeld: true } };
}

/**
 * Releases the allocations of the node that pass `which`, and returns them. Idempotent.
 * @throws store/locked
 */
export async function release(
  ports: IpamPorts,
  request: ReleaseRequest,
  signal: AbortSignal,
): Promise<readonly Allocation[]> {
  return (await releaseFrom(ports, reading(ports, request), signal)).freed;
}

/**
 * Releases an attachment that is being removed. Where the view may lag behind the datastore and does not show all of the
 * attachment, releases what the datastore itself shows, unless it is unavailable.
 */
export async function releaseForGood(
  ports: IpamPorts,
  request: ReleaseRequest,
  signal: AbortSignal,
): Promise<readonly Allocation[]> {
  const { freed, changes, view } = await releaseFrom(ports, reading(ports, request), signal);
  const endsAttachment = request.endpoint === undefined || changes.some(({ kind }) => kind === 'delete-endpoint');
  if (view.latest === undefined || (freed.length > 0 && endsAttachment)) return freed;
  try {
    return [
      ...freed,
      ...(await releaseFrom(ports, { ...reading(ports, request), view: undefined, read: view.latest }, signal)).freed,
    ];
  } catch (cause) {
    if (!isNetplugError(cause, 'store/unavailable')) throw cause;
    ports.log.warning('release not confirmed by the datastore', { node: request.node, reason: cause.message });
    return freed;
  }
}

type Reading = Omit<ReleaseRequest, 'view'> & {
  readonly view: NodeView | undefined;
  readonly read: (signal: AbortSignal) => Promise<NodeView>;
};

function reading({ store }: IpamPorts, { view, ...request }: ReleaseRequest): Reading {
  const { node, endpoint } = request;
  return { ...request, view, read: async (signal) => store.readNodeView(node, endpoint?.id, signal) };
}

async function releaseFrom(
  ports: IpamPorts,
  request: Reading,
  signal: AbortSignal,
): Promise<Pick<ReleasePlan, 'changes' | 'freed'> & { readonly view: NodeView }> {
  const { node, read } = request;
  const whole = { changes: new Array<Change>(), freed: new Array<Allocation>() };
  let view = request.view;
  for (let conflicts = 0; ;) {
    await backOffConflict(ports, conflicts, signal);
    using turn = await ports.store.takeTurn?.(signal);
    view = view === undefined || turn?.hasWaited === true ? await read(signal) : view;
    const plan = planChanges(request, view, request.isUndo === true ? undefined : releaseTime(ports.clock));
    if (view.isLocked && plan.freed.length > 0) throw lockedError('release an address', node);
    if (plan.changes.length === 0) return { ...whole, view };
    if ((await ports.store.commit(plan.changes, signal)) === 'committed') {
      whole.changes.push(...plan.changes);
      whole.freed.push(...plan.freed);
      if (!plan.isPartial) return { ...whole, view };
    } else conflicts += 1;
    view = undefined;
  }
}

function planChanges(
  { node, which, handle, endpoint }: Omit<ReleaseRequest, 'view'>,
  view: NodeView,
  releasedAt: number | undefined,
): ReleasePlan {
  const blocks = [...view.owned, ...view.borrowed].filter(
    ({ value }) => handle === undefined || hasAddressOf(value, handle),
  );
  const frees = (allocation: Allocation): boolean => allocation.node === node && which(allocation);
  const plan = planRelease(blocks, frees, releasedAt);
  const found = view.endpoint;
  if (found === undefined || endpoint?.isSame(found.value) !== true) return plan;
  const { unlessHeld = false } = endpoint;
  const isKept = unlessHeld && blocks.some(({ value }) => holdsAddressOf(value, found.value, (held) => !frees(held)));
  if (!isKept) plan.changes.push({ kind: 'delete-endpoint', before: found, unlessHeld });
  return plan;
}
