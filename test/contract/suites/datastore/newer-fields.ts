import { expect, it } from 'vitest';
import type { AnyResource } from '../../../../src/model/kinds.ts';
import { API_VERSION } from '../../../../src/model/resource.ts';
import { never, type StoreTraits } from './bench.ts';
import { ResourceFollower } from './resource-follower.ts';
import type { Store } from '../../../../src/datastore/store.ts';

const WHICH = { kind: 'NetworkPolicy', namespace: 'default', name: 'p' } as const;

/** What a newer release may write: fields that this one does not declare, wherever a field can be. */
const SPEC = {
  // A default, which readers fill in.
  types: ['Ingress'],
  selector: 'all()',
  stagedAs: { audit: 'p-2' },
  ingress: [
    {
      action: 'Allow',
      source: { nets: ['10.0.0.0/8'], domains: ['example.org'] },
      rateLimit: { perSecond: 10, bursts: [1, 2] },
    },
  ],
};

/** What a newer release has stored survives this one. */
export function newerFieldsContract(
  parts: () => { readonly store: Store; readonly other: Store },
  traits: StoreTraits,
): void {
  // The API of the orchestrator keeps no metadata but its own.
  const more = traits.nodes === 'store' ? { team: { lead: 'x' } } : {};
  // As a newer release would have it.
  const newer = {
    apiVersion: API_VERSION,
    kind: 'NetworkPolicy',
    metadata: { name: 'p', annotations: { a: 'b' }, ...more },
    spec: SPEC,
  } as unknown as AnyResource;

  it('is read in full by every kind of read', async () => {
    const { store, other } = parts();
    await store.createResource(newer, never);
    const found = await other.findResource(WHICH, never);
    expect(found).toMatchObject({ metadata: { ...newer.metadata, namespace: 'default' }, spec: SPEC });
    expect((await other.listResources('NetworkPolicy', never)).resources).toEqual([found]);
    const follower = await new ResourceFollower(other, 'NetworkPolicy').started();
    expect(follower.resources).toEqual([found]);
    await follower.end();
  });

  it('is kept when this release changes the resource', async () => {
    const { store, other } = parts();
    await store.createResource(newer, never);
    const read = await other.findResource(WHICH, never);
    if (read === undefined) throw new Error('not found');
    const labels = { team: 'a' };
    await other.updateResource({ ...read, metadata: { ...read.metadata, labels } }, never);
    const after = await store.findResource(WHICH, never);
    expect(after).toMatchObject({ metadata: { ...newer.metadata, labels }, spec: SPEC });
    expect(after?.spec).toEqual(read.spec);
  });
}
