import * as v from 'valibot';
import { tryParseJson } from '../../base/try-parse-json.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { INVENTORY } from '../../install/cluster/names.ts';
import { metadataOf } from '../../install/cluster/pod-template.ts';
import type { Manifest } from '../../model/manifest.ts';
import { type ObjectReference, referenceKey } from '../../kube/objects/reference.ts';

const line = v.object({
  apiVersion: v.string(),
  kind: v.string(),
  namespace: v.string(),
  name: v.string(),
  uid: v.string(),
  digest: v.string(),
});
const lines = v.array(line);
const content = v.looseObject({ data: v.looseObject({ objects: v.string() }) });

/** An object that the operator has created or taken over. */
export interface InventoryEntry extends ObjectReference {
  /** Empty until the object was applied. */
  readonly uid: string;
  /** The digest of the object as it was rendered; empty until it was applied. */
  readonly digest: string;
}

export type Inventory = ReadonlyMap<string, InventoryEntry>;

/** Kinds with data or addresses of users: their objects stay. */
const KEPT = ['CustomResourceDefinition', 'Namespace', 'IPPool'];

export function inventoryIn(object: ApiObject | undefined): Inventory {
  const read = v.safeParse(content, object);
  const listed = v.safeParse(lines, read.success ? tryParseJson(read.output.data.objects) : undefined);
  return new Map((listed.success ? listed.output : []).map((each) => [referenceKey(each), each]));
}

export function inventoryObject(inventory: Inventory, release: string): Manifest {
  const sorted = [...inventory.values()].sort((a, b) => (referenceKey(a) < referenceKey(b) ? -1 : 1));
  const objects = `[\n${sorted.map((entry) => JSON.stringify(entry)).join(',\n')}\n]\n`;
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: metadataOf(INVENTORY, release), data: { objects } };
}

/** Returns the entries whose objects must be deleted, since the settings no longer contain them. Pure. */
export function planPruning(inventory: Inventory, desired: ReadonlySet<string>): readonly InventoryEntry[] {
  return [...inventory].flatMap(([key, entry]) => (desired.has(key) || KEPT.includes(entry.kind) ? [] : [entry]));
}
