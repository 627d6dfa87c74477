import type { Attachment, NodeName } from '../model/names.ts';
import { type CniArgs, decodeCniArgs } from '../config/cni-args.ts';
import type { Netconf } from '../config/netconf.ts';
import type { PodIdentity } from '../ipam/assign.ts';
import type { CniCall } from './call.ts';
import type { Deadlines } from './deadline.ts';
import type { Invocation } from './invocation.ts';
import { planEndpointId } from './pod-network.ts';

/** Builds the call from environment and configuration. @throws cni/env-invalid, ipam/request-invalid */
export function decodeCall(
  input: { readonly invocation: Invocation; readonly config: Netconf; readonly raw: Readonly<Record<string, unknown>> },
  node: NodeName,
  limits: Pick<Deadlines, 'work' | 'cleanup'>,
): CniCall {
  const { invocation, config, raw } = input;
  const attachment: Attachment = {
    network: config.name,
    containerId: invocation.containerId,
    ifName: invocation.ifName,
  };
  const args = decodeCniArgs(invocation.args);
  const call: CniCall = {
    config,
    raw,
    node,
    attachment,
    path: invocation.path,
    netns: invocation.netns,
    args,
    pod: podOf(args),
    orchPod: undefined,
    endpointId: undefined,
    signal: limits.work,
    cleanupSignal: limits.cleanup,
  };
  return attachment.containerId === '' ? call : { ...call, endpointId: planEndpointId(call) };
}

/** Returns the pod, or undefined when the runtime does not pass both name and namespace: then it is a plain container. */
function podOf({ podName, podNamespace, podUid }: CniArgs): PodIdentity | undefined {
  if (podName === undefined || podNamespace === undefined) return undefined;
  return { name: podName, namespace: podNamespace, uid: podUid };
}
