import type { Controller } from './controller.ts';
import type { Feed } from './observed.ts';

/** The ClusterInformation. */
export const CLUSTER_RECORDS: Feed = { side: 'datastore', query: { kind: 'resources', of: 'ClusterInformation' } };

/** Compares the clusters of records and API server whenever the ClusterInformation has changed, and every period. */
export function clusterController(): Controller {
  return {
    name: 'cluster',
    feeds: [CLUSTER_RECORDS],
    start: ({ confirmCluster }) => {
      let isDue = false;
      return {
        note: (changes) => (isDue ||= changes.length > 0),
        reconcile: async (_, signal) => {
          isDue = false;
          await confirmCluster(signal);
        },
      };
    },
  };
}
