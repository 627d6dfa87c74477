import { freeSlots, takeSlot } from '../../../support/block-edits.ts';
import { afterEach, expect, it } from 'vitest';
import { emptyBlock } from '../../../../src/model/ip-block.ts';
import type { NodeName } from '../../../../src/model/names.ts';
import { API_VERSION } from '../../../../src/model/resource.ts';
import { endpointIdOf } from '../../../../src/model/workload-endpoint.ts';
import { type Bench, holder, never, pool, type StoreFixture, type StoreTraits } from './bench.ts';
import { Follower } from './follower.ts';
import type { Store } from '../../../../src/datastore/store.ts';

interface Parts {
  readonly store: Store;
  readonly other: Store;
  readonly fixture: StoreFixture;
}

/** Registers what holds of following a node in every datastore. `parts` is asked when a test runs. */
export function watchContract(
  parts: () => Parts,
  { bench, traits }: { readonly bench: Bench; readonly traits: StoreTraits },
): void {
  const { storedPool, commit, endpoint, block, createdBlock, update } = bench;
  const [a, b, c] = bench.nodes;
  const followers: Follower[] = [];
  const follow = async (node: NodeName = a): Promise<Follower> => {
    const follower = new Follower(parts().other, node);
    followers.push(follower);
    await follower.started();
    return follower;
  };
  afterEach(async () => {
    for (const follower of followers.splice(0)) await follower.end();
  });

  it('yields a snapshot first', async () => {
    const created = await createdBlock('10.0.0.0/26');
    await commit(update(created, takeSlot(created.value, 0, holder('x', b))));
    await commit({ kind: 'put-endpoint', endpoint: endpoint('e') });
    for (const node of [a, b, c]) {
      const follower = await follow(node);
      expect(follower.changes.map(({ kind }) => kind)).toEqual(['all']);
      expect(follower.observed()).toEqual(await follower.truth());
    }
  });

  it('yields created, changed and deleted blocks of the node, once each', async () => {
    const from = await storedPool();
    const follower = await follow();
    const created = await createdBlock('10.0.0.0/26', a, from);
    await createdBlock('10.0.0.64/26', b, from);
    await follower.sees('block', 1);
    const taken = takeSlot(created.value, 3, holder('x', a));
    await commit(update(created, taken));
    await follower.sees('block', 2);
    await commit({ kind: 'delete-block', before: await block('10.0.0.0/26') });
    await follower.sees('block', 3);
    expect(follower.of('block').map((change) => change.block?.value)).toEqual([created.value, taken, undefined]);
    expect(follower.observed()).toEqual(await follower.truth());
  });

  it('yields a block of the node when another node borrows from it', async () => {
    const created = await createdBlock('10.0.0.0/26');
    const follower = await follow();
    const lent = takeSlot(created.value, 0, holder('x', b));
    await commit(update(created, lent));
    await follower.sees('block', 1);
    expect(follower.of('block').map((change) => change.block?.value)).toEqual([lent]);
  });

  it('yields a block of another node while this node holds an address of it', async () => {
    const created = await createdBlock('10.0.0.0/26', b);
    const follower = await follow();
    const lent = takeSlot(created.value, 0, holder('x', a));
    await commit(update(created, lent));
    await follower.sees('block', 1);
    const more = takeSlot(lent, 1, holder('y', b));
    await commit(update(await block('10.0.0.0/26'), more));
    await follower.sees('block', 2);
    await commit(update(await block('10.0.0.0/26'), freeSlots(more, new Set(['x']))));
    await follower.sees('block', 3);
    await commit(update(await block('10.0.0.0/26'), takeSlot(more, 5, holder('z', c))));
    await follower.sees('block', 4);
    expect(follower.of('block').map((change) => change.block?.value.slots.size)).toEqual([1, 2, undefined, 3]);
    expect(follower.observed()).toEqual(await follower.truth());
  });

  it('yields a block that moves from owner to owner', async () => {
    const created = await createdBlock('10.0.0.0/26');
    const [ofA, ofB] = [await follow(a), await follow(b)];
    const lent = takeSlot(takeSlot(created.value, 0, holder('x', a)), 1, holder('y', b));
    const owners = [b, c, undefined, a, b] as const;
    await commit(update(created, lent));
    for (const owner of owners) await commit(update(await block('10.0.0.0/26'), { ...lent, node: owner }));
    for (const follower of [ofA, ofB]) {
      await follower.reaches(async () => follower.isTrue());
      // The watch never yields a move as an end; one that lags may leave some moves out.
      expect(follower.of('block').every((change) => change.block !== undefined)).toBe(true);
    }
    await commit(update(await block('10.0.0.0/26'), { ...freeSlots(lent, new Set(['x'])), node: c }));
    await ofA.reaches(async () => ofA.isTrue());
    expect(ofA.of('block').at(-1)?.block).toBeUndefined();
    await ofB.reaches(async () => ofB.isTrue());
    expect(ofB.of('block').at(-1)?.block?.value.node).toBe(c);
  });

  it('yields a deletion when another node takes over an empty block', async () => {
    const created = await createdBlock('10.0.0.0/26');
    const follower = await follow();
    await commit(update(created, { ...created.value, node: b }));
    await follower.sees('block', 1);
    expect(follower.of('block').map((change) => change.block)).toEqual([undefined]);
  });

  it('yields created, replaced and deleted endpoints of the node', async () => {
    const mine = endpoint('e');
    const follower = await follow();
    await commit({ kind: 'put-endpoint', endpoint: endpoint('e', { node: b, namespace: 'ns-b' }) });
    await commit({ kind: 'put-endpoint', endpoint: mine });
    await follower.sees('endpoint', 1);
    await commit({ kind: 'put-endpoint', endpoint: endpoint('e', { mac: '0a:00:00:00:00:02' }) });
    await follower.sees('endpoint', 2);
    const [before] = follower.endpoints;
    if (before === undefined) throw new Error('no endpoint');
    await commit({ kind: 'delete-endpoint', before });
    await follower.sees('endpoint', 3);
    expect(follower.of('endpoint').map((change) => change.endpoint?.value.spec.mac)).toEqual([
      '0a:00:00:00:00:01',
      '0a:00:00:00:00:02',
      undefined,
    ]);
    expect(follower.of('endpoint').map(({ id }) => id)).toEqual([mine, mine, mine].map(endpointIdOf));
    expect(follower.observed()).toEqual(await follower.truth());
  });

  it('yields pools, reservations, the configuration and the node', async () => {
    const { store } = parts();
    const follower = await follow();
    const made = { apiVersion: API_VERSION, metadata: { name: 'r' } } as const;
    const seen = async (): Promise<void> => follower.reaches(async () => follower.isTrue());
    await storedPool();
    await seen();
    await store.createResource({ ...made, kind: 'IPReservation', spec: { reservedCIDRs: ['10.0.0.0/30'] } }, never);
    await seen();
    const spec = { strictAffinity: true, maxBlocksPerNode: 7, cooldownSeconds: 0 };
    await store.createResource({ ...made, kind: 'IPAMConfiguration', metadata: { name: 'default' }, spec }, never);
    await seen();
    await bench.makeNode(a);
    await seen();
    await bench.labelNode(a, { rack: '7' });
    await follower.reaches(async () => Promise.resolve(follower.settings.node?.metadata.labels?.['rack'] === '7'));
    await store.updateResource({ ...pool('blue'), spec: { ...pool('blue').spec, disabled: true } }, never);
    await seen();
    await store.deleteResource({ kind: 'IPPool', name: 'blue' }, never);
    await store.deleteResource({ kind: 'IPReservation', name: 'r' }, never);
    await seen();
    expect(follower.settings).toMatchObject({ pools: [], reservations: [], config: spec });
  });

  it('yields the lock, and no other change of ClusterInformation', async () => {
    const { store } = parts();
    const made = { apiVersion: API_VERSION, kind: 'ClusterInformation', metadata: { name: 'default' } } as const;
    const follower = await follow();
    const locked = async (isLocked: boolean): Promise<void> =>
      follower.reaches(async () => Promise.resolve(follower.settings.isLocked === isLocked));
    await locked(false);
    await store.createResource({ ...made, spec: { datastoreReady: true } }, never);
    await store.updateResource({ ...made, spec: { datastoreReady: false } }, never);
    await locked(true);
    await store.updateResource({ ...made, spec: { netplugVersion: 'v3.27.1', datastoreReady: false } }, never);
    await store.deleteResource({ kind: 'ClusterInformation', name: 'default' }, never);
    await locked(false);
    expect(follower.of('settings').map(({ settings }) => settings.isLocked)).toEqual([true, false]);
  });

  it('yields problems for records that cannot be decoded, until they are deleted', async () => {
    const { store, fixture } = parts();
    const from = await storedPool();
    const damaged = await createdBlock('10.0.0.64/26', a, from);
    await commit({ kind: 'put-endpoint', endpoint: endpoint('e') });
    const follower = await follow();
    await fixture.damage({ block: damaged });
    await follower.sees('block', 1);
    await fixture.damage({ endpoint: endpointIdOf(endpoint('e')) });
    await follower.sees('endpoint', 1);
    await fixture.damage({ kind: 'IPPool', name: 'blue' });
    await follower.reaches(async () => Promise.resolve(follower.settings.problems.length === 3));
    expect([follower.blocks, follower.endpoints, follower.settings.pools]).toEqual([[], [], []]);
    await store.updateResource(pool('blue'), never);
    await follower.reaches(async () => Promise.resolve(follower.settings.problems.length === 2));
  });

  it('yields versions that a commit accepts, until the block changes', async () => {
    await createdBlock('10.0.0.0/26');
    const [follower, second] = [await follow(), await follow()];
    const [first] = follower.blocks;
    if (first === undefined) throw new Error('no block');
    await commit(update(first, takeSlot(first.value, 0, holder('x', a))));
    await follower.sees('block', 1);
    await second.sees('block', 1);
    const [now] = follower.blocks;
    if (now === undefined) throw new Error('no block');
    expect(second.blocks).toEqual([now]);
    expect(await parts().store.commit([update(first, first.value)], never)).toBe('conflict');
    await commit(update(now, takeSlot(now.value, 1, holder('y', a))));
  });

  it('ends in the state that a read returns after rapid changes', async () => {
    const from = await storedPool();
    const follower = await follow();
    const cidrs = ['10.0.0.0/26', '10.0.0.64/26', '10.0.0.128/26', '10.0.0.192/26'];
    const nodes = [a, b, undefined, c];
    const work = async (cidr: string, steps: number): Promise<void> => {
      let before = await createdBlock(cidr, a, from);
      for (let step = 0; step < steps; step += 1) {
        const { value } = before;
        const slots = step % 7 === 0 ? { ...emptyBlock(value.cidr, a), node: value.node } : value;
        const after = takeSlot(slots, step % 7, holder(`${cidr} ${String(step)}`, step % 3 === 0 ? a : b));
        await commit(update(before, step % 5 === 4 ? { ...after, node: nodes[((step / 5) % 4) | 0] } : after));
        before = await block(cidr);
      }
      if (cidr === cidrs[0]) await commit({ kind: 'delete-block', before });
    };
    const put = await Promise.all(['d', 'e'].map(async (name) => endpoint(name)));
    await Promise.all([
      ...cidrs.map(async (cidr) => work(cidr, traits.nodes === 'store' ? 50 : 15)),
      ...put.map(async (made) => commit({ kind: 'put-endpoint', endpoint: made })),
    ]);
    await follower.reaches(async () => follower.isTrue());
    expect(follower.of('all')).toHaveLength(1);
  });
}
