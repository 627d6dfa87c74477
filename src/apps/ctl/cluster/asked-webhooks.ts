import { ownValue } from '../../../base/own-value.ts';
import type { WebhookState } from '../../../checks/cluster-facts.ts';
import { AGENT_SET, SYSTEM_NAMESPACE } from '../../../install/cluster/names.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import { isMet } from '../../../upgrade/cluster/node-affinity.ts';
import { listIn, recordIn, textIn } from '../../../upgrade/cluster/objects-in.ts';

type Fields = Readonly<Record<string, unknown>>;
const CONCERNED = new Set(['*', 'pods', '*/*', 'pods/*', 'nodes', 'daemonsets', 'deployments', 'serviceaccounts']);

/** Agents that start need no other operation. */
const WRITES = new Set(['*', 'CREATE', 'UPDATE']);
const AGENT_LABELS = { 'app.kubernetes.io/name': AGENT_SET, 'app.kubernetes.io/part-of': 'netplug' };

/** The Service of a webhook. */
export interface ServedBy {
  readonly name: string;
  readonly namespace: string;
}

export interface AskedWebhook extends Omit<WebhookState, 'isBehindPodNetwork'> {
  /** Undefined for a server outside the cluster. */
  readonly service: ServedBy | undefined;
}

/**
 * Returns the webhooks of the configurations that the API server asks about pods, nodes and workloads of netplug. `labels` are
 * those of its namespace, as far as that exists.
 */
export function askedWebhooks(
  configurations: readonly ApiObject[],
  labels: Readonly<Record<string, string>> = {},
): readonly AskedWebhook[] {
  const own = { 'kubernetes.io/metadata.name': SYSTEM_NAMESPACE, ...labels };
  return configurations.flatMap((configuration) =>
    listIn(configuration, 'webhooks').flatMap((hook): AskedWebhook[] => {
      const matches = resourcesOf(hook).filter((each) => CONCERNED.has(each));
      const isAsked =
        selects(recordIn(hook, 'namespaceSelector'), own) && selects(recordIn(hook, 'objectSelector'), AGENT_LABELS);
      if (matches.length === 0 || !isAsked) return [];
      const service = recordIn(recordIn(hook, 'clientConfig'), 'service');
      const name = textIn(service, 'name');
      return [
        {
          name: `${configuration.metadata.name}/${textIn(hook, 'name')}`,
          failurePolicy: hook['failurePolicy'] === 'Ignore' ? 'Ignore' : 'Fail',
          matches,
          service: name === '' ? undefined : { name, namespace: textIn(service, 'namespace') },
        },
      ];
    }),
  );
}

function resourcesOf(hook: Fields): readonly string[] {
  return listIn(hook, 'rules')
    .filter((rule) => Array.isArray(rule['operations']) && rule['operations'].some((each) => WRITES.has(String(each))))
    .flatMap((rule) => (Array.isArray(rule['resources']) ? rule['resources'].map(String) : []));
}

/** Reports whether a LabelSelector matches the labels. */
function selects(selector: Fields, labels: Readonly<Record<string, string>>): boolean {
  const isEqual = Object.entries(recordIn(selector, 'matchLabels')).every(
    ([key, value]) => ownValue(labels, key) === value,
  );
  return (
    isEqual && listIn(selector, 'matchExpressions').every((each) => isMet(each, ownValue(labels, textIn(each, 'key'))))
  );
}
