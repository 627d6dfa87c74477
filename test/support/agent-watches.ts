// What an agent watches at the API server while a server of netplug-typha serves it.
import { clusterQueries } from '../../src/cache/cluster-view.ts';
import { nodeQueries } from '../../src/cache/node-view.ts';
import { policyQueries } from '../../src/cache/policy-records.ts';
import { sourcesOf } from '../../src/datastore/orch/query-sources.ts';
import { storedObjects } from '../../src/datastore/typha/stored-objects.ts';
import { FANNED_OUT, isFannedOut, queryOfTopic } from '../../src/datastore/typha/topics.ts';
import { collectionPath, PODS } from '../../src/kube/paths.ts';
import { nodeName } from './fixtures.ts';

/** Returns the paths of the collections: the two processes of an agent share one watch of each. */
export function watchedByAgent(): readonly string[] {
  const node = nodeName('node-a');
  const shared = [...clusterQueries(node), ...policyQueries(node)].filter((query) => !isFannedOut(query));
  const collections = [...nodeQueries(node), ...shared].flatMap((query, index) =>
    sourcesOf(query, index).map(({ watched }) => watched?.collection),
  );
  const sent = new Set(storedObjects(node).map(({ collection }) => collectionPath(collection)));
  // Pods of the node are watched for calls, and are no query of a datastore.
  const watched = new Set([PODS, ...collections.flatMap((each) => each ?? [])].map(collectionPath));
  return [...watched].filter((path) => !sent.has(path)).toSorted();
}

/** Returns the collections that a server watches, once for each watch: topics of the same objects share one. */
function watchedByServer(): readonly string[] {
  const watched = FANNED_OUT.flatMap((topic) => {
    const query = queryOfTopic(topic);
    return query === undefined ? [] : sourcesOf(query, 0).map(({ watched: each }) => each);
  });
  const distinct = new Map(watched.map((each) => [JSON.stringify([each?.collection, each?.options]), each]));
  return [...distinct.values()].map((each) => each?.collection.plural ?? '');
}

/** Returns the number of watches of so many agents and servers. */
export function watchesOfFleet(agents: number, servers: number): number {
  return agents * watchedByAgent().length + servers * watchedByServer().length;
}

/** Returns the number of watches of a server by the plural of what it watches. */
export function watchesOfServer(): ReadonlyMap<string, number> {
  return new Map([...Map.groupBy(watchedByServer(), (plural) => plural)].map(([plural, all]) => [plural, all.length]));
}
