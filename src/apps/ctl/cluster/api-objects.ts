import { isDeepStrictEqual } from 'node:util';
import { editLine } from '../../../install/cluster/edits/edit.ts';
import { findEdits } from '../../../install/cluster/edits/find-edits.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { applyObject, findObject } from '../../../kube/objects/apply.ts';
import { referenceOf } from '../../../kube/objects/reference.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';

export type ObjectState = 'missing' | 'same' | 'different';

export interface ComparedObject {
  readonly state: ObjectState;
  /** Lines for the user about each field that differs. */
  readonly changes: readonly string[];
}

/**
 * Compares an object with that of the cluster by a dry run of its application. `missing` as well when its namespace or its kind
 * does not exist yet.
 */
export async function compareObject(api: OrchApi, object: Manifest, signal: AbortSignal): Promise<ComparedObject> {
  const live = await findObject(api, referenceOf(object), signal);
  if (live === undefined) return { state: 'missing', changes: [] };
  const after = await applyObject(api, { object, mode: 'dry-run' }, signal);
  const [was, is] = [objectContent(live), objectContent(after)];
  if (isDeepStrictEqual(was, is)) return { state: 'same', changes: [] };
  return { state: 'different', changes: findEdits([was], [is]).map((edit) => editLine(edit)) };
}

/** Returns what of an object users write. */
export function objectContent({ metadata, ...rest }: ApiObject): unknown {
  const { managedFields: _, resourceVersion: _version, generation: _generation, ...kept } = metadata as Manifest;
  const { status: _status, ...content } = rest as Manifest;
  return { ...content, metadata: kept };
}
