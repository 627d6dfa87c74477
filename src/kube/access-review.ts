import type { OrchApi } from './orch-api.ts';

const REVIEWS = { group: 'authorization.k8s.io', version: 'v1', plural: 'selfsubjectaccessreviews' } as const;

/** Action that a caller wants to take. */
export interface ResourceAttributes {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace?: string;
}

/** Reports whether the API server allows the caller to do it. @throws store/* */
export async function isAllowed(api: OrchApi, attributes: ResourceAttributes, signal: AbortSignal): Promise<boolean> {
  const spec = { resourceAttributes: attributes };
  const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec };
  return (await api.review(REVIEWS, review, signal))['allowed'] === true;
}
