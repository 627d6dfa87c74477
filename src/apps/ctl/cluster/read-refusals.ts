import type { ClusterFacts } from '../../../checks/cluster-facts.ts';
import { ANNOTATIONS } from '../../../model/annotation-keys.ts';
import { ALLOWING_LABEL } from '../../../install/cluster/admission/annotation-policies.ts';
import { AGENT_SET, SYSTEM_NAMESPACE } from '../../../install/cluster/names.ts';
import { isAccountAllowed } from '../../../kube/access-review.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { NAMESPACES, NODES, PODS } from '../../../kube/paths.ts';
import { metadataIn, recordIn, templateIn, textIn } from '../../../upgrade/cluster/objects-in.ts';

export type Refusals = Pick<ClusterFacts, 'refusedPods' | 'agentsOutsidePods'>;
export const NOTHING_REFUSED: Refusals = { refusedPods: [], agentsOutsidePods: [] };

/** Names under which a role allows the use of an annotation. */
const RESTRICTED = Object.entries({
  ipAddrsNoIpam: ANNOTATIONS.ipAddrsNoIpam,
  floatingIPs: ANNOTATIONS.floatingIPs,
});
const TEMPLATES = [
  { kind: 'Deployment', group: 'apps', plural: 'deployments' },
  { kind: 'StatefulSet', group: 'apps', plural: 'statefulsets' },
  { kind: 'DaemonSet', group: 'apps', plural: 'daemonsets' },
  { kind: 'ReplicaSet', group: 'apps', plural: 'replicasets' },
  { kind: 'Job', group: 'batch', plural: 'jobs' },
  { kind: 'CronJob', group: 'batch', plural: 'cronjobs' },
] as const;
/** The agent annotates the Node that it registers. */
const NODE_NOTE = 'netplug/';

/** Something that pods are made from, or a pod that belongs to no other object. */
interface PodSource {
  readonly key: string;
  readonly namespace: string;
  readonly account: string;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Reads what the admission policies of netplug would refuse. @throws store/* */
export async function readRefusals(api: OrchApi, signal: AbortSignal): Promise<Refusals> {
  const [pods, namespaces, nodes, ...templates] = await Promise.all([
    api.list(PODS, {}, signal),
    api.list(NAMESPACES, { only: 'names', labelSelector: ALLOWING_LABEL }, signal),
    api.list(NODES, { only: 'names' }, signal),
    ...TEMPLATES.map(async ({ kind, group, plural }) =>
      (await api.list({ group, version: 'v1', plural }, {}, signal)).filter(isOwn).map((each) => sourceOf(each, kind)),
    ),
  ]);
  const allowing = new Set(namespaces.map(({ metadata }) => metadata.name));
  const sources = [...pods.filter(isOwn).map((pod) => sourceOf(pod, 'Pod')), ...templates.flat()];
  const refused: string[] = [];
  for (const { key, namespace, account, annotations } of sources) {
    if (allowing.has(namespace)) continue;
    for (const [name, annotation] of RESTRICTED) {
      if (annotations[annotation] === undefined) continue;
      const use = { verb: 'use', group: 'netplug.io', resource: 'addressannotations', namespace, name };
      const isAllowed = await isAccountAllowed(api, { namespace, name: account, does: use }, signal);
      if (!isAllowed) refused.push(`${key} (${annotation})`);
    }
  }
  const inPods = new Set(pods.filter(isAgent).map((pod) => textIn(recordIn(pod, 'spec'), 'nodeName')));
  return {
    refusedPods: refused,
    agentsOutsidePods: nodes
      .filter(({ metadata }) => Object.keys(metadata.annotations ?? {}).some((key) => key.startsWith(NODE_NOTE)))
      .map(({ metadata }) => metadata.name)
      .filter((name) => !inPods.has(name)),
  };
}

/** What a controller has made is made again from the template of its owner. */
function isOwn({ metadata }: ApiObject): boolean {
  const { ownerReferences } = metadata as { readonly ownerReferences?: readonly unknown[] };
  return (ownerReferences ?? []).length === 0;
}

function isAgent({ metadata }: ApiObject): boolean {
  return metadata.namespace === SYSTEM_NAMESPACE && metadata.labels?.['app.kubernetes.io/name'] === AGENT_SET;
}

function sourceOf(object: ApiObject, kind: string): PodSource {
  const { namespace = '', name } = object.metadata;
  const workload = kind === 'CronJob' ? recordIn(recordIn(object, 'spec'), 'jobTemplate') : object;
  const pod = kind === 'Pod' ? object : templateIn(workload);
  return {
    key: `${kind} ${namespace}/${name}`,
    namespace,
    account: accountIn(recordIn(pod, 'spec')),
    annotations: metadataIn(pod).annotations,
  };
}

function accountIn(spec: Readonly<Record<string, unknown>>): string {
  const account = textIn(spec, 'serviceAccountName');
  return account === '' ? 'default' : account;
}
