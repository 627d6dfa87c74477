import * as v from 'valibot';
import type { ApiObject } from './objects.ts';
import type { OrchApi } from './orch-api.ts';

const GROUP = { group: 'admissionregistration.k8s.io', version: 'v1' } as const;
const POLICIES = { ...GROUP, plural: 'validatingadmissionpolicies' } as const;
const BINDINGS = { ...GROUP, plural: 'validatingadmissionpolicybindings' } as const;

const binding = v.looseObject({ policyName: v.string(), validationActions: v.optional(v.array(v.string()), []) });

/** An admission policy that the API server carries out. */
export interface EnforcedPolicy {
  readonly name: string;
  /** Its match conditions and validations, as JSON. */
  readonly rules: string;
}

/** Returns the admission policies with a binding that refuses, in order of their names. @throws store/* */
export async function listEnforcedPolicies(api: OrchApi, signal: AbortSignal): Promise<readonly EnforcedPolicy[]> {
  const [policies, bindings] = await Promise.all([api.list(POLICIES, {}, signal), api.list(BINDINGS, {}, signal)]);
  const refusing = new Set(bindings.flatMap(refusedBy));
  return policies
    .map((policy) => ({ name: policy.metadata.name, rules: JSON.stringify(policy['spec'] ?? {}) }))
    .filter(({ name }) => refusing.has(name))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The policy of a binding that refuses; one that only warns or audits has none. */
function refusedBy(object: ApiObject): readonly string[] {
  const read = v.safeParse(binding, object['spec']);
  return read.success && read.output.validationActions.includes('Deny') ? [read.output.policyName] : [];
}
