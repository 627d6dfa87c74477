import { AGENT_SET, SYSTEM_NAMESPACE } from '../../../install/cluster/names.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { NAMESPACES, PODS } from '../../../kube/paths.ts';
import { listIn, recordIn, textIn } from '../../../upgrade/cluster/objects-in.ts';
import type { WebhookState } from '../../../upgrade/cluster/snapshot.ts';

type Fields = Readonly<Record<string, unknown>>;
const HOOKS = ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'] as const;
const CONCERNED = new Set(['*', 'pods', '*/*', 'pods/*', 'nodes', 'daemonsets', 'deployments', 'serviceaccounts']);

/** An upgrade needs no other operation while its agents start. */
const WRITES = new Set(['*', 'CREATE', 'UPDATE']);
const AGENT_LABELS = { 'app.kubernetes.io/name': AGENT_SET, 'app.kubernetes.io/part-of': 'netplug' };

/** Reads the webhooks that the API server asks about pods, nodes and workloads of netplug. @throws store/* */
export async function readWebhooks(api: OrchApi, signal: AbortSignal): Promise<readonly WebhookState[]> {
  const answer = await api.get(NAMESPACES, SYSTEM_NAMESPACE, signal);
  const own = answer.outcome === 'ok' ? (answer.value.metadata.labels ?? {}) : {};
  const labels = { 'kubernetes.io/metadata.name': SYSTEM_NAMESPACE, ...own };
  const found: WebhookState[] = [];
  for (const plural of HOOKS) {
    const collection = { group: 'admissionregistration.k8s.io', version: 'v1', plural };
    for (const configuration of await api.list(collection, {}, signal)) {
      for (const hook of listIn(configuration, 'webhooks')) {
        const matches = resourcesOf(hook).filter((each) => CONCERNED.has(each));
        const isAsked =
          selects(recordIn(hook, 'namespaceSelector'), labels) &&
          selects(recordIn(hook, 'objectSelector'), AGENT_LABELS);
        if (matches.length === 0 || !isAsked) continue;
        found.push({
          name: `${configuration.metadata.name}/${textIn(hook, 'name')}`,
          failurePolicy: hook['failurePolicy'] === 'Ignore' ? 'Ignore' : 'Fail',
          isBehindPodNetwork: await isBehindPods(api, recordIn(recordIn(hook, 'clientConfig'), 'service'), signal),
          matches,
        });
      }
    }
  }
  return found;
}

function resourcesOf(hook: Fields): readonly string[] {
  return listIn(hook, 'rules')
    .filter((rule) => Array.isArray(rule['operations']) && rule['operations'].some((each) => WRITES.has(String(each))))
    .flatMap((rule) => (Array.isArray(rule['resources']) ? rule['resources'].map(String) : []));
}

/** Reports whether a selector of namespaces matches the labels. */
function selects(selector: Fields, labels: Readonly<Record<string, string>>): boolean {
  const isEqual = Object.entries(recordIn(selector, 'matchLabels')).every(([key, value]) => labels[key] === value);
  return (
    isEqual &&
    listIn(selector, 'matchExpressions').every((expression) => {
      const key = textIn(expression, 'key');
      const values = Array.isArray(expression['values']) ? expression['values'].map(String) : [];
      const isThere = labels[key] !== undefined;
      const isIn = values.includes(labels[key] ?? '');
      const byOperator: Readonly<Record<string, boolean>> = {
        In: isThere && isIn,
        NotIn: !isThere || !isIn,
        Exists: isThere,
        DoesNotExist: !isThere,
      };
      return byOperator[textIn(expression, 'operator')] ?? true;
    })
  );
}

/** A server on the network of its node answers without the network of pods. */
async function isBehindPods(api: OrchApi, service: Fields, signal: AbortSignal): Promise<boolean> {
  const [name, namespace] = [textIn(service, 'name'), textIn(service, 'namespace')];
  if (name === '') return false;
  const answer = await api.get({ group: '', version: 'v1', plural: 'services', namespace }, name, signal);
  const selector = answer.outcome === 'ok' ? Object.entries(recordIn(recordIn(answer.value, 'spec'), 'selector')) : [];
  if (selector.length === 0) return true;
  const labelSelector = selector.map(([key, value]) => `${key}=${String(value)}`).join(',');
  const pods = await api.list({ ...PODS, namespace }, { labelSelector }, signal);
  return pods.length === 0 || pods.some((pod) => recordIn(pod, 'spec')['hostNetwork'] !== true);
}
