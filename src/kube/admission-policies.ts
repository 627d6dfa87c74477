import * as v from 'valibot';
import type { ApiObject } from './objects.ts';
import { kindCollection } from './objects/reference.ts';
import type { OrchApi } from './orch-api.ts';

/** Kinds of the policies that the API server evaluates itself, and of what puts them into force. */
export const POLICY_KIND = 'ValidatingAdmissionPolicy';
export const POLICY_BINDING_KIND = 'ValidatingAdmissionPolicyBinding';
const POLICIES = kindCollection(POLICY_KIND);
const BINDINGS = kindCollection(POLICY_BINDING_KIND);
/** What the API server must serve so that policies can be applied, as `group/plural`. */
const NEEDED = [POLICIES, BINDINGS].map(({ group, plural }) => `${group}/${plural}`);

const binding = v.looseObject({ policyName: v.string(), validationActions: v.optional(v.array(v.string()), []) });

/** An admission policy that the API server carries out. */
export interface EnforcedPolicy {
  readonly name: string;
  /** Its match conditions and validations, as JSON. */
  readonly rules: string;
}

/** Reports whether an API server that serves these kinds, as `group/plural`, evaluates admission policies. */
export function servesAdmissionPolicies(served: readonly string[]): boolean {
  return NEEDED.every((kind) => served.includes(kind));
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
