import * as v from 'valibot';
import { endpointShape, metadataShape } from '../model/endpoint-shape.ts';
import { decodeStoredResource } from '../model/decode-resource.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../model/kinds.ts';
import { fullId, type ResourceId, resourceIdOf } from '../model/resource-id.ts';
import { stagedAlone, withoutSelectors, withReadableRules, type WrittenSelectors } from '../model/readable-rules.ts';
import type { WorkloadEndpoint } from '../model/workload-endpoint.ts';
import type { Decoded } from './follow.ts';
import { issueText } from '../model/read-schema.ts';
import { given } from '../base/given.ts';

/**
 * Decodes a stored resource, or returns the problem as text. Keeps unknown fields, so that a write after a read preserves
 * the fields of a newer release.
 */
export function decodeRecordedResource<K extends ResourceKind>(
  which: ResourceId<K>,
  raw: unknown,
): ResourceOf<K> | string {
  const decoded = decodeStoredResource(raw);
  if (typeof decoded === 'string') return decoded;
  if (decoded.kind !== which.kind) return `it is of kind "${decoded.kind}"`;
  const { namespace, name } = resourceIdOf(decoded);
  if (name !== which.name) return `it is named "${name}"`;
  if (namespace !== fullId(which).namespace) return `it is in namespace "${namespace ?? ''}"`;
  // The kind was compared just above; the compiler cannot carry that over to K.
  return decoded as ResourceOf<K>;
}

/**
 * Decodes a stored resource for those who follow it. Of a policy that cannot be read as a whole, the rest is the value beside
 * the problem: one mistake must not remove its other rules.
 */
export function decodeFollowedResource<K extends ResourceKind>(
  which: ResourceId<K>,
  raw: unknown,
): Decoded<ResourceOf<K>> {
  const decoded = decodeRecordedResource(which, raw);
  if (typeof decoded !== 'string') return { value: decoded };
  const selected = withoutSelectors(raw);
  for (const [part, written] of [[withReadableRules(raw)], [stagedAlone(raw)], [selected?.rest, selected?.written]]) {
    const value = part === undefined ? decoded : decodeRecordedResource(which, part);
    if (typeof value !== 'string') return { value: withWritten(value, written), problem: decoded };
  }
  return { problem: decoded };
}

/** Puts the unreadable selectors back: readers of policies know what those mean. */
function withWritten<R extends AnyResource>(resource: R, written: WrittenSelectors = {}): R {
  return { ...resource, spec: { ...resource.spec, ...written } };
}

export function decodeEndpoint(raw: unknown): WorkloadEndpoint | string {
  const shape = v.safeParse(endpointShape, raw);
  if (!shape.success) return shape.issues.map(issueText).join('; ');
  return shape.output;
}

/** Returns the fields of a stored resource that no update changes; none for an unreadable one. */
export function identityOf(raw: unknown): { uid?: string; creationTimestamp?: string; status?: unknown } {
  const shape = v.safeParse(v.looseObject({ metadata: metadataShape, status: v.optional(v.unknown()) }), raw);
  if (!shape.success) return {};
  const { metadata, status } = shape.output;
  const { uid, creationTimestamp } = metadata;
  return given({ uid, creationTimestamp, status });
}

/** Returns the resource as it is stored: with its namespace, and identity and status of `stored`; without the version. */
export function withoutVersion(
  resource: AnyResource,
  stored: { readonly uid?: string; readonly creationTimestamp?: string; readonly status?: unknown },
): AnyResource {
  const { status, ...identity } = stored;
  const { resourceVersion: _, uid: _uid, creationTimestamp: _created, ...metadata } = resource.metadata;
  const { namespace } = resourceIdOf(resource);
  const stable = { ...metadata, ...(namespace === undefined ? {} : { namespace }), ...identity };
  return withStatus({ ...resource, metadata: stable }, status);
}

/** Returns the resource with another status; without one when it is undefined. */
export function withStatus<R extends AnyResource>(resource: R, status: unknown): R {
  const { status: _, ...rest } = { status: undefined, ...resource };
  // Only the field that not every kind has was left out.
  return { ...rest, ...(status === undefined ? {} : { status }) } as unknown as R;
}

/** Returns the resource without its version, for comparisons. */
export function unversioned<R extends AnyResource>(resource: R): R {
  const { resourceVersion: _, ...metadata } = resource.metadata;
  return { ...resource, metadata };
}

/** Returns the endpoint as it is stored, without its version. */
export function storedEndpoint({ metadata, ...rest }: WorkloadEndpoint): WorkloadEndpoint {
  const { resourceVersion: _, ...kept } = metadata;
  return { ...rest, metadata: kept };
}
