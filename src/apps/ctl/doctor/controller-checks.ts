import { isNetplugError } from '../../../base/errors.ts';
import { CONTROLLERS_ON } from '../../../config/controllers-settings.ts';
import type { Datastore } from '../../../config/connection.ts';
import { CONTROLLER_NAMES } from '../../../config/controller-names.ts';
import { CONTROLLERS } from '../../../model/automatic-host-endpoint.ts';
import { namespaceProfile } from '../../../model/policy-names.ts';
import { findCluster } from '../admit.ts';
import type { Sources } from './sources.ts';
import type { Check } from '../../../checks/check.ts';
import { topic } from './topic.ts';

export interface ControllerFacts {
  readonly type: Datastore['type'];
  /** The leader, where the datastore itself knows it. */
  readonly leader: string | undefined;
  /** Reason why the records do not say of which cluster they are; undefined when they do, or name none yet. */
  readonly clusterProblem: string | undefined;
  /** Namespaces with pods of networks with policy.type "orch", where those need profiles from controllers. */
  readonly namespaces: readonly string[];
  /** Namespaces among them that have no profile. */
  readonly withoutProfile: readonly string[];
}

export const CONTROLLER_CHECKS: readonly Check<ControllerFacts>[] = [
  {
    id: 'controllers/not-running',
    severity: 'error',
    expected: 'a leader of netplug-orch-controllers, where pods of networks with policy.type "orch" need its records',
    judge: ({ leader, namespaces }) =>
      namespaces.length === 0 || leader !== undefined
        ? []
        : [
            {
              found: `no ${CONTROLLERS} leads, and ${inNamespaces(namespaces)} have pods of networks with policy.type "orch": changes of NetworkPolicies, namespaces and labels of pods have no effect`,
              remedy: `Run ${CONTROLLERS} with the controllers policy, profile and workloadendpoint (docs/controllers.md)`,
            },
          ],
  },
  {
    id: 'controllers/cluster-unknown',
    severity: 'error',
    expected:
      'with etcd, a ClusterInformation that can be read: without it the controllers do not know whose records these are',
    remedy: 'Repair the record, or remove it and name the cluster (docs/controllers.md)',
    command: 'netplugctl datastore accept-cluster',
    judge: ({ clusterProblem }) =>
      clusterProblem === undefined
        ? []
        : [`${clusterProblem}: no ${CONTROLLERS} begins to lead, and a leader removes nothing`],
  },
  {
    id: 'controllers/profile-missing',
    severity: 'error',
    expected: 'a profile for every namespace with pods of networks with policy.type "orch"',
    judge: ({ withoutProfile }) =>
      withoutProfile.length === 0
        ? []
        : [
            {
              found: `${inNamespaces(withoutProfile)} have no profile: a node that enforces policies closes their pods`,
              remedy: `See the log of ${CONTROLLERS}; its controller "profile" makes them`,
            },
          ],
  },
];

export const CONTROLLERS_TOPIC = topic({
  area: 'controllers',
  scope: 'cluster',
  needsRecords: true,
  gather: gatherControllers,
  measure: ({ type, leader }) => {
    const idle = CONTROLLER_NAMES.filter((name) => !CONTROLLERS_ON[type].includes(name));
    return [
      ...(leader === undefined ? [] : [`leader ${leader}`]),
      ...(idle.length === 0 ? [] : [`${idle.join(', ')} have nothing to do: agents read the API themselves`]),
    ];
  },
  checks: CONTROLLER_CHECKS,
});

async function gatherControllers(sources: Sources, signal: AbortSignal): Promise<ControllerFacts> {
  const { type } = (await sources.connection()).datastore;
  if (type === 'orch')
    return { type, leader: undefined, clusterProblem: undefined, namespaces: [], withoutProfile: [] };
  const store = await sources.store();
  const [leader, clusterProblem, { endpoints }, { resources }] = await Promise.all([
    store.findLeader?.(CONTROLLERS, signal),
    findCluster(store, signal).then(() => undefined, problemIn),
    store.listEndpoints(undefined, signal),
    store.listResources('Profile', signal),
  ]);
  const needed = endpoints.flatMap(({ value: { metadata, spec } }) => {
    const { namespace = 'default' } = metadata;
    return spec.profiles.includes(namespaceProfile(namespace)) ? [namespace] : [];
  });
  const namespaces = [...new Set(needed)].sort();
  const profiles = new Set(resources.map(({ metadata }) => metadata.name));
  return {
    type,
    leader,
    clusterProblem,
    namespaces,
    withoutProfile: namespaces.filter((namespace) => !profiles.has(namespaceProfile(namespace))),
  };
}

function problemIn(cause: unknown): string {
  if (isNetplugError(cause, 'store/corrupt')) return cause.message;
  throw cause;
}

/** Names a few of them: there may be hundreds. */
function inNamespaces(namespaces: readonly string[]): string {
  const shown = namespaces.slice(0, 3).map((namespace) => `"${namespace}"`);
  const more = namespaces.length - shown.length;
  return `the namespaces ${shown.join(', ')}${more === 0 ? '' : ` and ${String(more)} more`}`;
}
