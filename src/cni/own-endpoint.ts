import type { NodeView } from '../datastore/allocation-store.ts';
import type { IpamPorts } from '../ipam/assign.ts';
import { endpointOf, release, type ReleasedEndpoint } from '../ipam/release.ts';
import { replacedEndpointId } from '../ipam/replaced-endpoint.ts';
import type { CniCall } from './call.ts';

/** Returns the `endpoint` field of a release; empty for calls that name no attachment. */
export function ownEndpoint({ endpointId, attachment }: CniCall): { endpoint?: ReleasedEndpoint } {
  return endpointId === undefined ? {} : endpointOf(endpointId, attachment);
}

/** Deletes the endpoint, but no address, unless it describes another attachment by now. */
export async function releaseEndpoint(ports: IpamPorts, call: CniCall, signal: AbortSignal): Promise<void> {
  await release(ports, { node: call.node, which: () => false, ...ownEndpoint(call) }, signal);
}

/** Deletes the record that the attachment has since another pod of the name has the endpoint of the call, as the view shows. */
export async function releaseReplaced(ports: IpamPorts, call: CniCall, view: NodeView): Promise<void> {
  const { endpointId, attachment, signal } = call;
  if (endpointId === undefined || view.endpoint?.value.spec.containerID === attachment.containerId) return;
  await releaseEndpoint(ports, { ...call, endpointId: replacedEndpointId(endpointId, attachment) }, signal);
}
