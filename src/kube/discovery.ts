import * as v from 'valibot';
import type { ApiRequest } from './requester.ts';

const ACCEPT = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';

/** The requests whose answers name every kind that the server serves. */
export const DISCOVERY: readonly ApiRequest[] = ['/api', '/apis'].map((path) => ({
  what: 'get discovery',
  method: 'GET',
  path,
  body: undefined,
  isRetried: true,
  headers: { accept: ACCEPT },
}));

const Groups = v.object({
  items: v.array(
    v.looseObject({
      metadata: v.optional(v.looseObject({ name: v.optional(v.string(), '') }), {}),
      versions: v.array(v.looseObject({ resources: v.optional(v.array(v.looseObject({ resource: v.string() })), []) })),
    }),
  ),
});

/** Returns the kinds in an answer, as `group/plural`; the core group is empty. */
export function readServedKinds(raw: unknown): readonly string[] | undefined {
  const read = v.safeParse(Groups, raw);
  if (!read.success) return undefined;
  const kinds = read.output.items.flatMap(({ metadata, versions }) =>
    versions.flatMap(({ resources }) => resources.map(({ resource }) => `${metadata.name}/${resource}`)),
  );
  return [...new Set(kinds)];
}
