import type { Manifest } from '../../model/manifest.ts';
import { SYSTEM_NAMESPACE } from './names.ts';
import { objectLabels } from './pod-template.ts';
import type { Role } from './rights/role-rule.ts';

/** Name of the level, and of the schema that sorts the requests of agents into it. */
export const FLOW_LEVEL = 'netplug-agent' satisfies Role['account'];
const API_VERSION = 'flowcontrol.apiserver.k8s.io/v1';

/** Share of the API server: less than kubelets have (40), and beside other accounts (100), which agents no longer crowd out. */
const SHARES = 30;
/** Part of the share, in percent, that others may use while agents are quiet. */
const LENDABLE = 50;
/** Requests that may wait: those of agents that all start at once. The API server refuses more, and agents try again. */
const WAITING = 5000;
/** After the schemas of Kubernetes for its own parts, before those for all service accounts (9000). */
const PRECEDENCE = 1000;

/** Returns what makes the requests of agents wait for one another, and no other program wait for them. */
export function flowControlObjects(release: string): readonly Manifest[] {
  const metadata = { name: FLOW_LEVEL, labels: objectLabels(FLOW_LEVEL, release) };
  const every = { verbs: ['*'] };
  return [
    {
      apiVersion: API_VERSION,
      kind: 'PriorityLevelConfiguration',
      metadata,
      spec: {
        type: 'Limited',
        limited: {
          nominalConcurrencyShares: SHARES,
          lendablePercent: LENDABLE,
          // All agents are one user: more queues would not part them.
          limitResponse: { type: 'Queue', queuing: { queues: 1, handSize: 1, queueLengthLimit: WAITING } },
        },
      },
    },
    {
      apiVersion: API_VERSION,
      kind: 'FlowSchema',
      metadata,
      spec: {
        priorityLevelConfiguration: { name: FLOW_LEVEL },
        matchingPrecedence: PRECEDENCE,
        rules: [
          {
            subjects: [{ kind: 'ServiceAccount', serviceAccount: { name: FLOW_LEVEL, namespace: SYSTEM_NAMESPACE } }],
            resourceRules: [{ ...every, apiGroups: ['*'], resources: ['*'], namespaces: ['*'], clusterScope: true }],
            nonResourceRules: [{ ...every, nonResourceURLs: ['*'] }],
          },
        ],
      },
    },
  ];
}
