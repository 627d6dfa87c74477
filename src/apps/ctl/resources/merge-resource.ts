import { isDeepStrictEqual } from 'node:util';
import * as v from 'valibot';
import { type AnyResource, KINDS, type ResourceKind } from '../../../model/kinds.ts';
import { METADATA_FIELDS } from '../../../model/metadata.ts';
import type { Schema } from '../../../model/schema-shape.ts';
import { keepUnknown } from './keep-unknown.ts';

/** Extent to which stored labels and annotations stay when the file says nothing about them. */
export type Silence = 'keeps-labels' | 'drops-labels';

/** A resource of the kind, from its envelope down. */
export function schemaOf(kind: ResourceKind): Schema & { readonly entries: Readonly<Record<string, Schema>> } {
  return v.looseObject({
    apiVersion: v.string(),
    kind: v.string(),
    metadata: v.looseObject(METADATA_FIELDS),
    spec: v.looseObject(KINDS[kind].fields),
  });
}

/**
 * Merges a manifest into the stored resource, keeping unknown fields. Identity and version are those of the stored one.
 */
export function mergeResource(stored: AnyResource, wanted: AnyResource, silence: Silence): AnyResource {
  const { labels, annotations } =
    silence === 'keeps-labels' ? { ...stored.metadata, ...wanted.metadata } : wanted.metadata;
  const { labels: _labels, annotations: _annotations, ...identity } = stored.metadata;
  const metadata = {
    ...identity,
    ...(labels === undefined ? {} : { labels }),
    ...(annotations === undefined ? {} : { annotations }),
  };
  // Both are of one kind; the compiler does not connect the kind with the spec.
  return keepUnknown({ ...wanted, metadata }, { stored, schema: schemaOf(wanted.kind) }) as AnyResource;
}

/** Whether both say the same, whatever the order of their keys. */
export function sameResource(a: AnyResource, b: AnyResource): boolean {
  // Through JSON, because an absent field and an undefined one are the same to the datastore.
  return isDeepStrictEqual(JSON.parse(JSON.stringify(a)), JSON.parse(JSON.stringify(b)));
}
