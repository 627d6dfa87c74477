import type { AssignRequest } from '../ipam/assign.ts';
import type { Address } from '../net/address.ts';
import type { Netconf } from '../config/netconf.ts';
import { effectivePools } from '../config/precedence.ts';
import type { EndpointOf } from './address-source.ts';
import type { CniCall } from './call.ts';

export type OwnIpam = Extract<Netconf['ipam'], { type: 'netplug-ipam' }>;

/** Returns the request to netplug's own address manager. Without `endpointOf` no endpoint is recorded. */
export function requestOf(call: CniCall, ipam: OwnIpam, endpointOf: EndpointOf | undefined): AssignRequest {
  const { config, args, orchPod } = call;
  const annotated = orchPod?.requests.addresses;
  return {
    node: call.node,
    attachment: call.attachment,
    pod: call.pod,
    pools: { 4: effectivePools(4, ipam.v4, orchPod?.requests), 6: effectivePools(6, ipam.v6, orchPod?.requests) },
    requested:
      annotated === undefined
        ? { addresses: requestedAddresses(config, args.ips), rule: 'request' }
        : { addresses: annotated.addresses, rule: 'pod-annotation', text: annotated.askedBy },
    ...(endpointOf === undefined || call.endpointId === undefined
      ? {}
      : {
          endpoint: {
            id: call.endpointId,
            withAddresses: (assigned) => endpointOf(assigned.map(({ address }) => address)),
          },
        }),
  };
}

/** Returns the requested addresses. `runtimeConfig` and `args` take precedence over CNI_ARGS, the older mechanism. */
function requestedAddresses({ runtime }: Netconf, fromArgs: readonly Address[]): readonly Address[] {
  return runtime.ips.length > 0 ? runtime.ips : fromArgs;
}
