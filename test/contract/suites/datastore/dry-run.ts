import { expect, it } from 'vitest';
import { expectCode, never } from './bench.ts';
import { networkSet } from './resource-names.ts';
import type { Store } from '../../../../src/datastore/store.ts';

const WHICH = { kind: 'NetworkSet', namespace: 'default', name: 'blue' } as const;

/** What a dry run of a write reports. */
export function dryRunContract(parts: () => { readonly store: Store; readonly other: Store }): void {
  it('of a creation returns the resource, and writes nothing', async () => {
    const { store, other } = parts();
    const shown = await store.createResource(networkSet('blue'), never, 'dry-run');
    expect(shown).toMatchObject({
      kind: 'NetworkSet',
      metadata: { namespace: 'default', name: 'blue' },
      spec: { nets: ['10.0.0.0/16'] },
    });
    expect(await other.findResource(WHICH, never)).toBeUndefined();
    await store.createResource(networkSet('blue'), never);
    await expectCode('resource/exists', store.createResource(networkSet('blue'), never, 'dry-run'));
  });

  it('of an update refuses what the update would refuse, and writes nothing', async () => {
    const { store, other } = parts();
    const changed = { ...networkSet('blue'), spec: { nets: ['10.9.0.0/16'] } };
    await expectCode('resource/not-found', store.updateResource(changed, never, 'dry-run'));
    const made = await store.createResource(networkSet('blue'), never);
    const shown = await store.updateResource(changed, never, 'dry-run');
    expect(shown).toMatchObject({ metadata: { uid: made.metadata.uid }, spec: { nets: ['10.9.0.0/16'] } });
    expect(await other.findResource(WHICH, never)).toEqual(made);
    await store.updateResource(changed, never);
    const old = { ...changed, metadata: made.metadata };
    await expectCode('resource/changed', store.updateResource(old, never, 'dry-run'));
  });

  it('of a deletion refuses what the deletion would refuse, and deletes nothing', async () => {
    const { store, other } = parts();
    await expectCode('resource/not-found', store.deleteResource(WHICH, never, 'dry-run'));
    const made = await store.createResource(networkSet('blue'), never);
    const { resourceVersion = '' } = made.metadata;
    await store.deleteResource({ ...WHICH, resourceVersion }, never, 'dry-run');
    await store.deleteResource(WHICH, never, 'dry-run');
    expect(await other.findResource(WHICH, never)).toEqual(made);
    await store.updateResource({ ...networkSet('blue'), spec: { nets: [] } }, never);
    await expectCode('resource/changed', store.deleteResource({ ...WHICH, resourceVersion }, never, 'dry-run'));
  });
}
