import { describe, expect, it } from 'vitest';
import { type InventoryEntry, inventoryIn, inventoryObject, planPruning } from './inventory.ts';
import { referenceKey } from '../../kube/objects/reference.ts';

const entry = (kind: string, name: string): InventoryEntry => ({
  apiVersion: 'v1',
  kind,
  namespace: 'n',
  name,
  uid: `uid-${name}`,
  digest: 'd',
});
const inventoryOf = (...entries: readonly InventoryEntry[]) =>
  new Map(entries.map((each) => [referenceKey(each), each]));

describe('the inventory', () => {
  it('is read from the ConfigMap as it was written', () => {
    const inventory = inventoryOf(entry('ConfigMap', 'a'), entry('Role', 'b'));
    const { metadata, ...object } = inventoryObject(inventory, 'v3.27.0');
    expect(inventoryIn({ ...object, metadata: metadata as { name: string } })).toEqual(inventory);
    expect(inventoryIn(undefined)).toEqual(new Map());
    expect(inventoryIn({ metadata: { name: 'x' }, data: { objects: '[{]' } })).toEqual(new Map());
  });

  it('prunes what is no longer desired, but never definitions, namespaces and pools', () => {
    const kept = ['CustomResourceDefinition', 'Namespace', 'IPPool'].map((kind) => entry(kind, 'kept'));
    const desired = entry('DaemonSet', 'netplug-node');
    const bird = entry('DaemonSet', 'netplug-bird');
    const inventory = inventoryOf(...kept, desired, bird);
    expect(planPruning(inventory, new Set([referenceKey(desired)]))).toEqual([bird]);
  });
});
