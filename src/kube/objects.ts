import * as v from 'valibot';
import { foreignRecord } from '../base/foreign-record.ts';
import { MIRROR_ANNOTATION } from '../model/annotation-keys.ts';

const metadata = v.looseObject({
  name: v.string(),
  namespace: v.exactOptional(v.string()),
  uid: v.exactOptional(v.string()),
  resourceVersion: v.exactOptional(v.string()),
  creationTimestamp: v.nullish(v.string()),
  deletionTimestamp: v.nullish(v.string()),
  labels: v.nullish(foreignRecord(v.string(), v.string())),
  annotations: v.nullish(foreignRecord(v.string(), v.string())),
});

const apiObject = v.looseObject({ metadata });
const apiList = v.looseObject({
  metadata: v.looseObject({ continue: v.nullish(v.string()), resourceVersion: v.nullish(v.string()) }),
  items: v.nullish(v.array(apiObject)),
});
const status = v.looseObject({
  kind: v.literal('Status'),
  message: v.nullish(v.string()),
  reason: v.nullish(v.string()),
  details: v.nullish(
    v.looseObject({
      causes: v.nullish(
        v.array(
          v.looseObject({
            reason: v.nullish(v.string()),
            message: v.nullish(v.string()),
            field: v.nullish(v.string()),
          }),
        ),
      ),
    }),
  ),
});

/** An object of the API, with only the fields that every object has. */
export type ApiObject = v.InferOutput<typeof apiObject>;
export type ObjectMeta = ApiObject['metadata'];

/** Returns a key that is unique among the objects of a kind: neither a namespace nor a name contains a slash. */
export function objectKey({ metadata }: ApiObject): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}

/** One page of a listing; `next` asks for the page after it. */
export interface Page {
  readonly items: readonly ApiObject[];
  readonly next: string | undefined;
  readonly version: string;
}
/** Reason why the API did not do as asked, in its own words. */
export interface ApiStatus {
  readonly message: string;
  readonly reason: string;
  readonly heldFields: readonly HeldField[];
}
/** A field that another manager owns. */
export interface HeldField {
  /** Example: `spec.cidr`. */
  readonly field: string;
  readonly owner: string;
}

export function readObject(raw: unknown): ApiObject | undefined {
  const read = v.safeParse(apiObject, raw);
  return read.success ? read.output : undefined;
}

export function readPage(raw: unknown): Page | undefined {
  const read = v.safeParse(apiList, raw);
  if (!read.success) return undefined;
  const { continue: next, resourceVersion: version } = read.output.metadata;
  return {
    items: read.output.items ?? [],
    next: (next ?? '') === '' ? undefined : (next ?? ''),
    version: version ?? '',
  };
}

export function readStatus(raw: unknown): ApiStatus | undefined {
  const read = v.safeParse(status, raw);
  if (!read.success) return undefined;
  const { message, reason, details } = read.output;
  const held = (details?.causes ?? []).filter((cause) => cause.reason === 'FieldManagerConflict');
  return {
    message: message ?? '',
    reason: reason ?? '',
    heldFields: held.map((cause) => ({
      field: (cause.field ?? '').replace(/^\./, ''),
      owner: /^conflict with "([^"]*)"/.exec(cause.message ?? '')?.[1] ?? cause.message ?? '',
    })),
  };
}

/** Reports whether the pod stands for a static pod of its node, which goes on when the kubelet creates another mirror pod for it. */
export function isMirrorPod({ metadata }: ApiObject): boolean {
  return metadata.annotations?.[MIRROR_ANNOTATION] !== undefined;
}

/** Returns the finalizers of the object: its deletion waits until there are none. */
export function finalizersOf({ metadata }: ApiObject): readonly string[] {
  const { finalizers } = metadata as { readonly finalizers?: unknown };
  return Array.isArray(finalizers) ? finalizers.filter((each): each is string => typeof each === 'string') : [];
}

/** Reports whether the object is being deleted. */
export function isLeaving({ metadata }: ApiObject): boolean {
  return (metadata.deletionTimestamp ?? '') !== '';
}
