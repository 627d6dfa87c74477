import type { OrchApi } from './orch-api.ts';

const REVIEWS = { group: 'authorization.k8s.io', version: 'v1', plural: 'selfsubjectaccessreviews' } as const;

/** Action that a caller wants to take. */
export interface ResourceAttributes {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
}

interface AccountName {
  readonly namespace: string;
  readonly name: string;
}

/** Reports whether the API server allows a service account to do it. @throws store/* */
export async function isAccountAllowed(
  api: OrchApi,
  { namespace, name, does }: AccountName & { readonly does: ResourceAttributes },
  signal: AbortSignal,
): Promise<boolean> {
  const spec = {
    resourceAttributes: does,
    user: `system:serviceaccount:${namespace}:${name}`,
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
  };
  const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec };
  const collection = { ...REVIEWS, plural: 'subjectaccessreviews' };
  return (await api.review(collection, review, signal))['allowed'] === true;
}

/** Reports whether the API server allows the caller to do it. @throws store/* */
export async function isAllowed(api: OrchApi, attributes: ResourceAttributes, signal: AbortSignal): Promise<boolean> {
  const spec = { resourceAttributes: attributes };
  const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec };
  return (await api.review(REVIEWS, review, signal))['allowed'] === true;
}
