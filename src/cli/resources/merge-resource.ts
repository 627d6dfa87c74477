import { isDeepStrictEqual } from 'node:util';
import type { AnyResource } from '../../model/kinds.ts';
import type { Metadata } from '../../model/resource.ts';
import { findSpecReader } from '../../model/spec-readers.ts';

const ENVELOPE = ['apiVersion', 'kind', 'metadata', 'spec'];

/** How much of the stored labels and annotations stays when the file says nothing about them. */
export type Silence = 'keeps-labels' | 'drops-labels';

/**
 * What shall be stored, from what is and what a file asks for: the spec of the file, plus every field of the stored
 * record that this release does not know, so that an older tool drops nothing a newer one wrote.
 */
export function mergeResource(stored: AnyResource, wanted: AnyResource, silence: Silence): AnyResource {
  const known = findSpecReader(wanted.kind)?.fields ?? [];
  const { labels, annotations } =
    silence === 'keeps-labels' ? { ...stored.metadata, ...wanted.metadata } : wanted.metadata;
  const { name, uid, creationTimestamp, resourceVersion } = stored.metadata;
  const metadata: Metadata = {
    name,
    ...(labels === undefined ? {} : { labels }),
    ...(annotations === undefined ? {} : { annotations }),
    ...(uid === undefined ? {} : { uid }),
    ...(creationTimestamp === undefined ? {} : { creationTimestamp }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
  // Both are of one kind; the compiler does not connect the kind with the spec.
  return {
    ...without(stored, ENVELOPE),
    apiVersion: wanted.apiVersion,
    kind: wanted.kind,
    metadata,
    spec: { ...without(stored.spec, known), ...wanted.spec },
  } as AnyResource;
}

/** Whether both say the same, whatever the order of their keys. */
export function sameResource(a: AnyResource, b: AnyResource): boolean {
  // Through JSON, because an absent field and an undefined one are the same to the datastore.
  return isDeepStrictEqual(JSON.parse(JSON.stringify(a)), JSON.parse(JSON.stringify(b)));
}

function without(whole: object, keys: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(whole).filter(([key]) => !keys.includes(key)));
}
