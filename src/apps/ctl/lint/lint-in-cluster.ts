import { decodeResource } from '../../../model/decode-resource.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { resourceIdOf } from '../../../model/resource-id.ts';
import { adviseInCluster } from '../../../policy/advise-in-cluster.ts';
import type { PolicyAdvice } from '../../../policy/advise-policy.ts';
import { describeOvertaken, overtakenDenials } from '../../../policy/overtaken-denials.ts';
import type { PolicyState } from '../../../policy/policy-state.ts';
import type { DnsCache } from '../../../policy/reach/vital-services.ts';
import type { ResolvedPolicy } from '../../../policy/resolved-policy.ts';
import { type DocumentSource, readDocuments } from '../documents.ts';
import { itemsOf } from '../resources/resource-files.ts';
import { readKubernetesPolicy, policyToLint } from './lint-policy.ts';

/** Advice on a policy that only the cluster can give. */
export type ClusterAdvice = (policy: ResolvedPolicy) => readonly PolicyAdvice[];

/** Returns advice on policies of the files, as if all of them were applied. */
export function adviseWith(
  state: PolicyState,
  sources: readonly DocumentSource[],
  caches: readonly DnsCache[],
): ClusterAdvice {
  state.apply(
    sources.flatMap(policiesIn).map((value) => ({ kind: 'resource', which: resourceIdOf(value), value }) as const),
  );
  return (policy) => adviseInCluster(state, policy, caches);
}

/** Returns advice on policies of the files beside each other, without their cluster. */
export function adviseAmong(sources: readonly DocumentSource[]): ClusterAdvice {
  const policies = sources.flatMap(policiesIn).flatMap((resource) => policyToLint(resource) ?? []);
  const overtaken = overtakenDenials(policies);
  return ({ id }) =>
    overtaken
      .filter(({ policy }) => policy === id)
      .map((each) => ({ path: 'order', message: describeOvertaken(each) }));
}

/** Returns the policies that can be used; others are reported when the file is checked. */
function policiesIn(source: DocumentSource): readonly AnyResource[] {
  const { documents } = readDocuments(source, 'resource/invalid');
  return documents.flatMap(({ value }) => itemsOf(value)).flatMap(({ raw }) => policyOf(raw) ?? []);
}

function policyOf(raw: unknown): AnyResource | undefined {
  if (!isRecord(raw)) return undefined;
  const { apiVersion, kind } = raw;
  if (kind === 'NetworkPolicy' && apiVersion === 'networking.k8s.io/v1') return readKubernetesPolicy(raw).value;
  if (kind !== 'NetworkPolicy' && kind !== 'GlobalNetworkPolicy') return undefined;
  const decoded = decodeResource(raw);
  return 'problems' in decoded ? undefined : decoded.resource;
}
