import * as v from 'valibot';
import type { ApiObject } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { NODES } from '../../kube/paths.ts';
import { servesAdmissionPolicies } from '../../kube/admission-policies.ts';
import { isUnknownKind } from '../../kube/answers.ts';
import { readServiceRanges } from '../../kube/service-ranges.ts';
import { decodeStoredResource } from '../../model/decode-resource.ts';
import type { IpPool } from '../../model/ip-pool.ts';
import { type NodeState, nodeStateOf } from '../../kube/status/node-state.ts';
import type { ObservedCluster } from './accept-spec.ts';

export const IP_POOLS = { group: 'netplug.io', version: 'v3', plural: 'ippools' } as const;

/** Reads what an installation depends on in the cluster. @throws store/* */
export async function observeCluster(
  api: OrchApi,
  { release, digests }: Pick<ObservedCluster, 'release' | 'digests'>,
  signal: AbortSignal,
): Promise<ObservedCluster & { readonly nodes: readonly NodeState[] }> {
  const [nodes, serviceCidrs, pools, served] = await Promise.all([
    api.list(NODES, {}, signal),
    readServiceRanges(api, signal),
    listPools(api, signal),
    api.servedKinds(signal),
  ]);
  const read = pools.map((object) => ({ object, decoded: poolIn(object) }));
  return {
    release,
    digests,
    servesAdmission: servesAdmissionPolicies(served),
    nodes: nodes.map((node) => nodeStateOf(node)),
    serviceCidrs,
    pools: read.flatMap(({ decoded }) => (typeof decoded === 'string' ? [] : [decoded])),
    unreadablePools: read.flatMap(({ object, decoded }) =>
      typeof decoded === 'string' ? [{ name: object.metadata.name, cidr: cidrIn(object), problem: decoded }] : [],
    ),
  };
}

/** A kind that is not served has no objects. */
async function listPools(api: OrchApi, signal: AbortSignal): Promise<readonly ApiObject[]> {
  try {
    return await api.list(IP_POOLS, {}, signal);
  } catch (cause) {
    if (isUnknownKind(cause)) return [];
    throw cause;
  }
}

function poolIn(object: ApiObject): IpPool | string {
  const decoded = decodeStoredResource(object);
  if (typeof decoded === 'string') return decoded;
  return decoded.kind === 'IPPool' ? decoded : 'it is no IPPool';
}

function cidrIn(object: ApiObject): string | undefined {
  const read = v.safeParse(v.looseObject({ spec: v.looseObject({ cidr: v.string() }) }), object);
  return read.success ? read.output.spec.cidr : undefined;
}
