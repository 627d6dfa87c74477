import { expect, it } from 'vitest';
import type { Store } from '../../../../src/datastore/store.ts';
import { emptyBlock } from '../../../../src/model/ip-block.ts';
import { markOf, overlapStatus } from '../../../../src/model/ip-pool-status.ts';
import type { IpPool } from '../../../../src/model/ip-pool.ts';
import { at, type Bench, expectCode, never, pool } from './bench.ts';
import { ResourceFollower } from './resource-follower.ts';

const WHICH = { kind: 'IPPool', name: 'blue' } as const;
const STATUS = overlapStatus('10.0.0.0/8, the network of node "a"', '2026-01-01T00:00:00Z');
const MARK = { reason: 'CIDROverlap', message: 'it overlaps 10.0.0.0/8, the network of node "a"' };

/** Registers what holds of `setPoolStatus` in every datastore. `parts` is asked when a test runs. */
export function poolStatusContract(
  parts: () => { readonly store: Store; readonly other: Store },
  { bench }: { readonly bench: Bench },
): void {
  const found = async (): Promise<IpPool> => {
    const stored = await parts().other.findResource(WHICH, never);
    if (stored === undefined) throw new Error('no pool');
    return stored;
  };
  const version = async (): Promise<{ name: string; resourceVersion: string }> => ({
    name: 'blue',
    resourceVersion: (await found()).metadata.resourceVersion ?? '',
  });
  const mark = async (): Promise<void> => parts().store.setPoolStatus(await version(), STATUS, never);

  it('is read in full by every kind of read, and removed again', async () => {
    const { store, other } = parts();
    await bench.storedPool();
    const before = await found();
    await mark();
    expect(markOf((await found()).status)).toMatchObject(MARK);
    expect((await found()).spec).toEqual(before.spec);
    const [listed] = (await other.listResources('IPPool', never)).resources;
    expect(markOf(listed?.status)).toMatchObject(MARK);
    const [viewed] = (await other.readNodeView(bench.nodes[0], undefined, never)).pools;
    expect(markOf(viewed?.value.status)).toMatchObject(MARK);
    const follower = await new ResourceFollower(other, 'IPPool').started();
    expect(markOf(follower.resources[0]?.status)).toMatchObject(MARK);
    await store.setPoolStatus(await version(), undefined, never);
    await follower.reaches(() => markOf(follower.resources[0]?.status) === undefined);
    await follower.end();
    expect(markOf((await found()).status)).toBeUndefined();
  });

  it('is neither made by a creation nor changed by an update', async () => {
    const { store } = parts();
    await store.createResource({ ...pool('blue'), status: STATUS }, never);
    expect(markOf((await found()).status)).toBeUndefined();
    await mark();
    const { status: _, ...without } = await found();
    await store.updateResource({ ...without, spec: { ...without.spec, disabled: true } }, never);
    expect(await found()).toMatchObject({ spec: { disabled: true } });
    expect(markOf((await found()).status)).toMatchObject(MARK);
    const forged = overlapStatus('nothing', '2026-01-02T00:00:00Z');
    await store.updateResource({ ...(await found()), status: forged }, never);
    expect(markOf((await found()).status)).toMatchObject(MARK);
  });

  it('keeps a block from being claimed by what was read before', async () => {
    const from = await bench.storedPool();
    await mark();
    const claim = { kind: 'create-block', block: emptyBlock(at('10.0.0.0/26'), bench.nodes[0]), pool: from } as const;
    expect(await parts().store.commit([claim], never)).toBe('conflict');
  });

  it('is refused for a pool that has changed or is gone', async () => {
    const { store } = parts();
    await bench.storedPool();
    const old = await version();
    await mark();
    await expectCode('resource/changed', store.setPoolStatus(old, undefined, never));
    await store.deleteResource(WHICH, never);
    await expectCode('resource/not-found', store.setPoolStatus(old, STATUS, never));
  });
}
