// What an agent watches at the API server when everything that all nodes follow comes from netplug-typha.
import { clusterQueries } from '../../src/cache/cluster-view.ts';
import { nodeQueries } from '../../src/cache/node-view.ts';
import { policyQueries } from '../../src/cache/policy-records.ts';
import { sourcesOf } from '../../src/datastore/orch/query-sources.ts';
import { FANNED_OUT, isFannedOut } from '../../src/datastore/typha/topics.ts';
import { collectionPath, PODS } from '../../src/kube/paths.ts';
import { nodeName } from './fixtures.ts';

/** Returns the paths of the collections: the two processes of an agent share one watch of each. */
export function watchedByAgent(): readonly string[] {
  const node = nodeName('node-a');
  const shared = [...clusterQueries(node), ...policyQueries(node)].filter((query) => !isFannedOut(query));
  const collections = [...nodeQueries(node), ...shared].flatMap((query, index) =>
    sourcesOf(query, index, { writtenBlocks: undefined }).map(({ watched }) => watched?.collection),
  );
  // Pods of the node are watched for calls, and are no query of a datastore.
  return [...new Set([PODS, ...collections.flatMap((each) => each ?? [])].map(collectionPath))].toSorted();
}

/** Returns the number of watches of so many agents and servers. */
export function watchesOfFleet(agents: number, servers: number): number {
  return agents * watchedByAgent().length + servers * FANNED_OUT.length;
}
