import type { NodeView } from '../datastore/allocation-store.ts';
import { hasAddressOf } from '../model/ip-block.ts';
import { type Attachment, handleOf } from '../model/names.ts';
import {
  attachmentOf,
  type EndpointId,
  endpointIdOf,
  endpointName,
  type WorkloadEndpoint,
} from '../model/workload-endpoint.ts';

/**
 * Returns the id under which the record of an attachment stays when another pod takes its id. A pod that was deleted by force
 * may run on beside the next one of its name.
 */
export function replacedEndpointId({ node, namespace }: EndpointId, { containerId, ifName }: Attachment): EndpointId {
  const name = endpointName({ node, orchestrator: 'cni', workload: containerId, endpoint: ifName });
  return { node, namespace, name };
}

/**
 * Returns the record that `next` replaces under the id that it gets for that: the one of another pod, while it holds addresses
 * that are not those of `next`. Undefined for any other.
 */
export function replacedEndpoint(view: NodeView, next: WorkloadEndpoint): WorkloadEndpoint | undefined {
  const before = view.endpoint?.value;
  if (before === undefined || !isOfAnotherPod(before, next)) return undefined;
  const attachment = attachmentOf(before);
  const handle = handleOf(attachment);
  const isHolding = [...view.owned, ...view.borrowed].some(({ value }) => hasAddressOf(value, handle));
  if (!isHolding || before.spec.ipNetworks.some((text) => next.spec.ipNetworks.includes(text))) return undefined;
  const { name } = replacedEndpointId(endpointIdOf(before), attachment);
  return { ...before, metadata: { ...before.metadata, name } };
}

/** Reports whether the two are of different pods, in different sandboxes: not while the UID of one is unknown. */
export function isOfAnotherPod({ spec: a }: WorkloadEndpoint, { spec: b }: WorkloadEndpoint): boolean {
  const isKnown = a.podUID !== undefined && b.podUID !== undefined;
  return isKnown && a.podUID !== b.podUID && a.containerID !== b.containerID;
}
