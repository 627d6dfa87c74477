import type { ResourceStore } from '../../../datastore/resource-store.ts';
import { NetplugError } from '../../../base/errors.ts';
import { findBuiltIn } from '../../../datastore/built-in.ts';
import type { AllocationStore, Stored } from '../../../datastore/allocation-store.ts';
import type { ClusterInformation } from '../../../model/cluster-information.ts';
import type { IpBlock } from '../../../model/ip-block.ts';
import { type AnyResource, KIND_NAMES, type ResourceKind } from '../../../model/kinds.ts';
import { resourceIdOf } from '../../../model/resource-id.ts';
import type { WorkloadEndpoint } from '../../../model/workload-endpoint.ts';
import type { Datastore } from '../../../config/connection.ts';
import { findCluster } from '../admit.ts';

/** The kinds that agents write again where they run. */
const WRITTEN_AGAIN = ['ClusterInformation', 'NodeReport'] as const;

export type PlainResource = Exclude<AnyResource, { readonly kind: (typeof WRITTEN_AGAIN)[number] }>;

/** Everything a datastore holds. */
export interface Contents {
  readonly cluster: ClusterInformation | undefined;
  readonly resources: readonly PlainResource[];
  readonly blocks: readonly Stored<IpBlock>[];
  readonly endpoints: readonly Stored<WorkloadEndpoint>[];
}

/** Returns the name of the datastore in `clusterType`. */
export function typeOf({ type }: Datastore): 'kv' | 'orch' {
  return type === 'orch' ? 'orch' : 'kv';
}

/** Reads everything that the datastore holds. @throws store/corrupt when a record cannot be decoded */
export async function readContents(store: AllocationStore & ResourceStore, signal: AbortSignal): Promise<Contents> {
  const kinds = KIND_NAMES.filter((kind) => !isWrittenAgain(kind));
  const [cluster, blocks, endpoints, ...listings] = await Promise.all([
    findCluster(store, signal),
    store.listBlocks(signal),
    store.listEndpoints(undefined, signal),
    ...kinds.map(async (kind) => store.listResources(kind, signal)),
  ]);
  const problems = [blocks, endpoints, ...listings].flatMap((listing) => listing.problems);
  if (problems.length > 0) throw unreadable(problems);
  return {
    cluster,
    resources: listings.flatMap(({ resources }) => resources).filter(isPlain),
    blocks: blocks.blocks,
    endpoints: endpoints.endpoints,
  };
}

/** Reports whether an export includes the resource: nothing that agents write again, and nothing built in. */
export function isPlain(resource: AnyResource): resource is PlainResource {
  return !isWrittenAgain(resource.kind) && findBuiltIn(resourceIdOf(resource)) === undefined;
}

function isWrittenAgain(kind: ResourceKind): boolean {
  return WRITTEN_AGAIN.some((each) => each === kind);
}

function unreadable(problems: readonly string[]): NetplugError {
  const [first = ''] = problems;
  const more = problems.length === 1 ? '' : `, and ${String(problems.length - 1)} more`;
  return new NetplugError('store/corrupt', `Cannot read the whole datastore: ${first}${more}`, {
    hint: 'Repair or delete these records. "netplugctl ipam check" and "netplugctl get" list them',
    facts: { problems },
  });
}
