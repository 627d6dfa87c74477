import { type Findings, joinPaths } from '../../../base/problem.ts';
import { fromKubernetesPolicy } from '../../../model/from-kubernetes/network-policy.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { advisePolicy } from '../../../policy/advise-policy.ts';
import { type OrderedPolicy, resolveGlobalPolicy, resolveNetworkPolicy } from '../../../policy/resolve-policy.ts';
import type { ResolvedPolicy } from '../../../policy/resolved-policy.ts';
import type { ClusterAdvice } from './lint-in-cluster.ts';

/** Without a cluster, nothing. */
export const NO_CLUSTER: ClusterAdvice = () => [];

type Raw = Readonly<Record<string, unknown>>;

/** Returns warnings about a policy of netplug that is valid. */
export function lintPolicy(resource: AnyResource, advise: ClusterAdvice): Findings['warnings'] {
  const resolved = policyToLint(resource);
  return resolved === undefined ? [] : warningsAbout(resolved.policy, advise);
}

/** Returns a policy of netplug as it is evaluated; undefined for one that cannot be, and for another resource. */
export function policyToLint(resource: AnyResource): OrderedPolicy | undefined {
  if (resource.kind === 'NetworkPolicy') return resolveNetworkPolicy(resource);
  const resolved = resource.kind === 'GlobalNetworkPolicy' ? resolveGlobalPolicy(resource) : undefined;
  return resolved !== undefined && 'policy' in resolved ? resolved : undefined;
}

/** Returns what a Kubernetes NetworkPolicy says, as far as it has a name. */
export function readKubernetesPolicy({ metadata, ...more }: Raw): Partial<ReturnType<typeof fromKubernetesPolicy>> {
  if (!isRecord(metadata) || typeof metadata['name'] !== 'string') return {};
  const { name, namespace } = metadata;
  const own = { name, ...(typeof namespace === 'string' ? { namespace } : {}) };
  return fromKubernetesPolicy({ ...more, metadata: own });
}

/** Returns errors and warnings about a Kubernetes NetworkPolicy. */
export function lintKubernetesPolicy(raw: Raw, advise: ClusterAdvice): Findings {
  const { value, problems = [] } = readKubernetesPolicy(raw);
  return {
    problems: problems.map((message) => ({ path: 'spec', message, code: 'resource/invalid' })),
    warnings: value === undefined ? [] : warningsOfKubernetes(resolveNetworkPolicy(value).policy, advise),
  };
}

/** Returns the warnings about a policy of Kubernetes, which has `podSelector` in place of `selector`. */
function warningsOfKubernetes(policy: ResolvedPolicy, advise: ClusterAdvice): Findings['warnings'] {
  return warningsAbout(policy, (own) =>
    advise(own).map((advice) => (advice.path === 'selector' ? { ...advice, path: 'podSelector' } : advice)),
  );
}

function warningsAbout(policy: ResolvedPolicy, advise: ClusterAdvice): Findings['warnings'] {
  return [...advisePolicy(policy), ...advise(policy)].map(({ path, message }) => {
    const place = joinPaths('spec', path);
    return { path: place, message: `${place} ${message}` };
  });
}
