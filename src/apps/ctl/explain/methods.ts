import type { CniCall } from '../../../cni/call.ts';
import type { AssignRequest } from '../../../ipam/assign.ts';
import type { ChosenBy } from '../../../model/ip-block.ts';
import { type Family, formatAddress } from '../../../net/address.ts';
import { formatCidr } from '../../../net/cidr.ts';
import { ANNOTATIONS } from '../../../model/annotation-keys.ts';

/** One row of the precedence table (specification, "Precedence of address-assignment methods"). */
export interface Method {
  readonly rank: 1 | 2 | 3;
  readonly name: string;
  /** The value of the method; undefined when it is not set. */
  readonly says: string | undefined;
  readonly decides: boolean;
}

/** Returns the methods for one family by precedence, with the value of each and which one decides. */
export function methodsFor(
  family: Family,
  { orchPod, config: { ipam } }: Pick<CniCall, 'orchPod' | 'config'>,
  { pools, requested }: Pick<AssignRequest, 'pools' | 'requested'>,
): readonly Method[] {
  const certain = requested.addresses.find((address) => address.family === family);
  const address = certain === undefined ? undefined : formatAddress(certain);
  const request = orchPod?.requests.addresses;
  const decider: ChosenBy | 'address' =
    address === undefined
      ? (pools[family].askedBy?.rule ?? 'node-selector')
      : request === undefined
        ? 'request'
        : 'address';
  const addressKey = request?.via === 'bypass' ? ANNOTATIONS.ipAddrsNoIpam : ANNOTATIONS.ipAddrs;
  const key = ANNOTATIONS.pools[family];
  const configured = ipam.type === 'netplug-ipam' ? (family === 4 ? ipam.v4 : ipam.v6).pools : undefined;
  const names = configured?.map((ref) => (ref.by === 'name' ? ref.name : formatCidr(ref.cidr)));
  const { annotations, namespaceAnnotations } = { annotations: {}, namespaceAnnotations: {}, ...orchPod?.facts };
  const rows: readonly [Method['rank'], string, string | undefined, typeof decider][] = [
    [1, `annotation ${addressKey} of the pod`, request === undefined ? undefined : address, 'address'],
    [1, `annotation ${key} of the pod`, annotations[key], 'pod-annotation'],
    [1, `annotation ${key} of the namespace`, namespaceAnnotations[key], 'namespace-annotation'],
    [2, 'address requested by the runtime', request === undefined ? address : undefined, 'request'],
    [2, `ipam.ipv${String(family)}_pools of the network configuration`, names?.join(', '), 'netconf'],
    [3, 'node selectors of the pools', undefined, 'node-selector'],
  ];
  return rows.map(([rank, name, says, by]) => ({ rank, name, says, decides: by === decider }));
}
