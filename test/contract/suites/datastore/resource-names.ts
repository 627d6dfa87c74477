import { expect, it } from 'vitest';
import type { GlobalNetworkSet, NetworkSet } from '../../../../src/model/network-set.ts';
import { API_VERSION } from '../../../../src/model/resource.ts';
import { expectCode, never, type StoreFixture, type StoreTraits } from './bench.ts';
import type { Store } from '../../../../src/datastore/store.ts';

export const networkSet = (name: string, namespace?: string): NetworkSet => ({
  apiVersion: API_VERSION,
  kind: 'NetworkSet',
  metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
  spec: { nets: ['10.0.0.0/16'] },
});

const globalSet = (name: string): GlobalNetworkSet => ({
  ...networkSet(name),
  kind: 'GlobalNetworkSet',
});

/** What tells resources apart. */
export function resourceNamesContract(
  parts: () => { readonly store: Store; readonly other: Store; readonly fixture: StoreFixture },
  { names }: StoreTraits,
): void {
  const odd = (text: string, dns: string): string => (names === 'dns' ? dns : text);
  const create = async (name: string, namespace: string): Promise<NetworkSet> => {
    await parts().fixture.putNamespace?.(namespace);
    return (await parts().store.createResource(networkSet(name, namespace), never)) as NetworkSet;
  };
  const listed = async (): Promise<string[]> =>
    (await parts().other.listResources('NetworkSet', never)).resources.map(
      ({ metadata }) => `${metadata.namespace ?? ''} ${metadata.name}`,
    );

  it('may be the same in two namespaces, and for a kind that is not namespaced', async () => {
    const { store, other } = parts();
    const shop = await create('blue', 'shop');
    const bank = await create('blue', 'bank');
    const global = await store.createResource(globalSet('blue'), never);
    expect(await other.findResource({ kind: 'NetworkSet', namespace: 'shop', name: 'blue' }, never)).toEqual(shop);
    expect(await other.findResource({ kind: 'NetworkSet', namespace: 'bank', name: 'blue' }, never)).toEqual(bank);
    expect(await other.findResource({ kind: 'GlobalNetworkSet', name: 'blue' }, never)).toEqual(global);
    expect(await other.findResource({ kind: 'NetworkSet', namespace: 'none', name: 'blue' }, never)).toBeUndefined();
    await store.updateResource({ ...shop, spec: { nets: ['10.9.0.0/16'] } }, never);
    await store.deleteResource({ kind: 'GlobalNetworkSet', name: 'blue' }, never);
    expect(await listed()).toEqual(['bank blue', 'shop blue']);
    expect(await other.findResource({ kind: 'NetworkSet', namespace: 'bank', name: 'blue' }, never)).toEqual(bank);
    await store.deleteResource({ kind: 'NetworkSet', namespace: 'shop', name: 'blue' }, never);
    expect(await listed()).toEqual(['bank blue']);
  });

  it('are in the namespace "default" by default', async () => {
    const { store, other } = parts();
    const made = await store.createResource(networkSet('blue'), never);
    expect(made.metadata.namespace).toBe('default');
    expect(await other.findResource({ kind: 'NetworkSet', name: 'blue' }, never)).toEqual(made);
    expect(await other.findResource({ kind: 'NetworkSet', namespace: 'default', name: 'blue' }, never)).toEqual(made);
    await expectCode('resource/exists', store.createResource(networkSet('blue', 'default'), never));
    const changed = await store.updateResource({ ...networkSet('blue'), spec: { nets: [] } }, never);
    expect(changed.metadata).toMatchObject({ namespace: 'default', uid: made.metadata.uid });
    await store.deleteResource({ kind: 'NetworkSet', name: 'blue' }, never);
    expect(await listed()).toEqual([]);
  });

  it('are listed by namespace and then by name, over several pages', async () => {
    const [slash, after] = [odd('a/b', 'a-b'), odd('b/c', 'b-c')];
    for (const [namespace, name] of [
      ['b', 'x'],
      [slash, 'c'],
      ['a', after],
      ['a', 'z'],
      ['a', 'b'],
    ] as const) {
      await create(name, namespace);
    }
    expect(await listed()).toEqual(['a b', `a ${after}`, 'a z', `${slash} c`, 'b x']);
  });

  it('are in full in every error', async () => {
    const { store } = parts();
    const made = await create('blue', 'shop');
    const which = { kind: 'NetworkSet', namespace: 'shop', name: 'blue' } as const;
    const { message, facts } = await expectCode('resource/exists', store.createResource(made, never));
    expect(message).toContain('NetworkSet "shop/blue"');
    expect(facts).toEqual(which);
    await store.updateResource({ ...networkSet('blue', 'shop'), spec: { nets: [] } }, never);
    const [updated, deleted] = [
      await expectCode('resource/changed', store.updateResource(made, never)),
      await expectCode(
        'resource/changed',
        store.deleteResource({ ...which, resourceVersion: made.metadata.resourceVersion ?? '' }, never),
      ),
    ];
    await store.deleteResource(which, never);
    const missing = [
      await expectCode('resource/not-found', store.deleteResource(which, never)),
      await expectCode('resource/not-found', store.updateResource(networkSet('blue', 'shop'), never)),
    ];
    for (const error of [updated, deleted, ...missing]) {
      expect(error.message).toContain('NetworkSet "shop/blue"');
      expect(error.facts).toEqual(which);
    }
  });

  it('that are not valid are not found', async () => {
    const { store } = parts();
    for (const which of [
      { kind: 'NetworkSet', namespace: 'default/networksets/blue', name: 'blue' },
      { kind: 'NetworkSet', namespace: '..', name: 'blue' },
      { kind: 'NetworkSet', name: '../blue' },
    ] as const) {
      expect(await store.findResource(which, never)).toBeUndefined();
      await expectCode('resource/not-found', store.deleteResource(which, never));
    }
  });

  it('whose record cannot be decoded are reported as a problem with the name', async () => {
    const { store, fixture } = parts();
    await create('blue', 'shop');
    await create('green', 'shop');
    await fixture.damage({ kind: 'NetworkSet', namespace: 'shop', name: 'blue' });
    const { resources, problems } = await store.listResources('NetworkSet', never);
    expect(resources.map(({ metadata }) => metadata.name)).toEqual(['green']);
    expect(problems).toEqual([expect.stringMatching(/shop\/blue"/)]);
    const which = { kind: 'NetworkSet', namespace: 'shop', name: 'blue' } as const;
    expect((await expectCode('store/corrupt', store.findResource(which, never))).message).toMatch(/shop\/blue"/);
  });

  it('are created once when many try at the same time', async () => {
    const { store, other, fixture } = parts();
    await fixture.putNamespace?.('shop');
    const outcomes = await Promise.all(
      Array.from({ length: 64 }, async (_, index) =>
        (index % 2 === 0 ? store : other).createResource(networkSet(`n${String(index % 8)}`, 'shop'), never).then(
          () => 'created',
          ({ code }: { readonly code: string }) => code,
        ),
      ),
    );
    expect(outcomes.filter((outcome) => outcome === 'created')).toHaveLength(8);
    expect(outcomes.filter((outcome) => outcome === 'resource/exists')).toHaveLength(56);
    expect(await listed()).toHaveLength(8);
  });

  it('at one version are updated by one of many writers', async () => {
    const { store, other } = parts();
    const made = await create('blue', 'shop');
    const outcomes = await Promise.all(
      Array.from({ length: 64 }, async (_, index) =>
        (index % 2 === 0 ? store : other)
          .updateResource({ ...made, spec: { nets: [`10.${String(index + 1)}.0.0/16`] } }, never)
          .then(
            ({ spec }) => spec,
            ({ code }: { readonly code: string }) => code,
          ),
      ),
    );
    const won = outcomes.filter((outcome) => typeof outcome === 'object');
    expect(won).toHaveLength(1);
    expect(outcomes.filter((outcome) => outcome === 'resource/changed')).toHaveLength(63);
    const which = { kind: 'NetworkSet', namespace: 'shop', name: 'blue' } as const;
    expect((await other.findResource(which, never))?.spec).toEqual(won[0]);
  });
}
