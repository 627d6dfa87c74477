import type { IpamPorts } from '../ipam/assign.ts';
import { endpointOf, release, type ReleasedEndpoint } from '../ipam/release.ts';
import type { CniCall } from './call.ts';

/** The endpoint of the call's attachment, as a release takes it; nothing for calls that concern no attachment. */
export function ownEndpoint({ endpointId, attachment }: CniCall): { endpoint?: ReleasedEndpoint } {
  return endpointId === undefined ? {} : endpointOf(endpointId, attachment);
}

/** Deletes the endpoint alone, as long as it still describes the call's attachment. */
export async function releaseEndpoint(ports: IpamPorts, call: CniCall, signal: AbortSignal): Promise<void> {
  await release(ports, { node: call.node, which: () => false, ...ownEndpoint(call) }, signal);
}
