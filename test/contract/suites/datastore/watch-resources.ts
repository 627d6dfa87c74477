import { afterEach, expect, it } from 'vitest';
import type { ResourceKind } from '../../../../src/model/kinds.ts';
import { type Bench, expectCode, never, pool, type StoreFixture } from './bench.ts';
import { networkSet } from './resource-names.ts';
import { ResourceFollower } from './resource-follower.ts';
import type { Store } from '../../../../src/datastore/store.ts';

/** Registers what holds of following resources in every datastore. `parts` is asked when a test runs. */
export function watchResourcesContract(
  parts: () => { readonly store: Store; readonly other: Store; readonly fixture: StoreFixture },
  bench: Bench,
): void {
  const followers: { readonly end: () => Promise<void> }[] = [];
  const follow = async <K extends ResourceKind>(kind: K): Promise<ResourceFollower<K>> => {
    const follower = new ResourceFollower(parts().other, kind);
    followers.push(follower);
    return follower.started();
  };
  afterEach(async () => {
    for (const follower of followers.splice(0)) await follower.end();
  });

  it('yields a snapshot of the kind first, in order, as a read returns it', async () => {
    const { store, other, fixture } = parts();
    for (const namespace of ['shop', 'bank']) {
      await fixture.putNamespace?.(namespace);
      for (const name of ['green', 'blue']) await store.createResource(networkSet(name, namespace), never);
    }
    await store.createResource(pool('blue'), never);
    const { changes } = await follow('NetworkSet');
    const { resources, problems } = await other.listResources('NetworkSet', never);
    expect(resources).toHaveLength(4);
    expect(changes).toEqual([{ kind: 'all', resources, problems }]);
  });

  it('yields created, changed and deleted resources of the kind, and of no other', async () => {
    const { store, other } = parts();
    const follower = await follow('NetworkSet');
    expect(follower.changes).toEqual([{ kind: 'all', resources: [], problems: [] }]);
    await store.createResource(networkSet('blue'), never);
    // Quick successive changes may be yielded as one.
    await follower.sees(1);
    await store.createResource(pool('blue'), never);
    await store.updateResource({ ...networkSet('blue'), spec: { nets: ['10.7.0.0/16'] } }, never);
    await follower.sees(2);
    expect(follower.resources).toEqual([
      await other.findResource({ kind: 'NetworkSet', namespace: 'default', name: 'blue' }, never),
    ]);
    await store.deleteResource({ kind: 'NetworkSet', name: 'blue' }, never);
    const blue = 'NetworkSet "default/blue"';
    expect(await follower.sees(3)).toEqual([`put ${blue}`, `put ${blue}`, `gone ${blue}`]);
  });

  it('yields versions that an update accepts', async () => {
    const { store } = parts();
    const follower = await follow('NetworkSet');
    await store.createResource(networkSet('blue'), never);
    await follower.sees(1);
    const [yielded] = follower.resources;
    if (yielded === undefined) throw new Error('the watch has yielded nothing');
    await store.updateResource({ ...yielded, spec: { nets: [] } }, never);
    await expectCode('resource/changed', store.updateResource(yielded, never));
    await follower.sees(2);
    await store.updateResource({ ...(follower.resources[0] ?? yielded), spec: yielded.spec }, never);
  });

  it('yields no event for an unchanged record', async () => {
    const { store } = parts();
    await store.createResource(networkSet('blue'), never);
    const follower = await follow('NetworkSet');
    await store.updateResource(networkSet('blue'), never);
    await store.createResource(networkSet('green'), never);
    expect(await follower.sees(1)).toEqual(['put NetworkSet "default/green"']);
  });

  it('yields a problem for a resource that cannot be decoded, and the value once it can', async () => {
    const { store, fixture } = parts();
    await store.createResource(networkSet('blue'), never);
    const follower = await follow('NetworkSet');
    await fixture.damage({ kind: 'NetworkSet', name: 'blue' });
    expect(await follower.sees(1)).toEqual(['gone NetworkSet "default/blue" with a problem']);
    const second = await follow('NetworkSet');
    expect(second.changes).toMatchObject([
      { kind: 'all', resources: [], problems: [expect.stringContaining('blue') as string] },
    ]);
    await store.updateResource(networkSet('blue'), never);
    expect(await second.sees(1)).toEqual(['put NetworkSet "default/blue"']);
    await fixture.damage({ kind: 'NetworkSet', name: 'blue' });
    await second.sees(2);
    await store.deleteResource({ kind: 'NetworkSet', name: 'blue' }, never);
    expect((await second.sees(3)).slice(1)).toEqual([
      'gone NetworkSet "default/blue" with a problem',
      'gone NetworkSet "default/blue"',
    ]);
  });

  it('yields built-in resources as if they were stored', async () => {
    const { other } = parts();
    const { changes } = await follow('Profile');
    const { resources } = await other.listResources('Profile', never);
    expect(resources).not.toEqual([]);
    expect(changes).toEqual([{ kind: 'all', resources, problems: [] }]);
  });

  it('yields nodes regardless of the writer', async () => {
    const [a] = bench.nodes;
    const follower = await follow('Node');
    await bench.makeNode(a);
    await bench.labelNode(a, { rack: 'r7' });
    await follower.reaches(() => follower.resources.some(({ metadata }) => metadata.labels?.['rack'] === 'r7'));
    await bench.removeNode(a);
    await follower.reaches(() => follower.resources.length === 0);
    expect(follower.lines.at(-1)).toBe(`gone Node "${a}"`);
  });

  it('ends in the stored state after 64 concurrent writers', async () => {
    const { store, other } = parts();
    const follower = await follow('NetworkSet');
    await Promise.all(
      Array.from({ length: 64 }, async (_, index) => {
        const name = `n${String(index)}`;
        await store.createResource(networkSet(name), never);
        await other.updateResource({ ...networkSet(name), spec: { nets: [`10.${String(index)}.0.0/16`] } }, never);
        if (index % 2 === 0) await store.deleteResource({ kind: 'NetworkSet', name }, never);
      }),
    );
    const { resources } = await store.listResources('NetworkSet', never);
    expect(resources).toHaveLength(32);
    const truth = new Map(resources.map((each) => [each.metadata.name, each]));
    await follower.reaches(
      () =>
        follower.resources.length === truth.size &&
        follower.resources.every(
          ({ metadata }) => metadata.resourceVersion === truth.get(metadata.name)?.metadata.resourceVersion,
        ),
    );
    expect(new Map(follower.resources.map((each) => [each.metadata.name, each]))).toEqual(truth);
    expect(follower.lines).not.toContain('all');
  });
}
