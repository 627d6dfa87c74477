import { freeSlots, preallocate, takeSlot } from '../../../support/block-edits.ts';
import { afterEach, expect, it } from 'vitest';
import type { BgpPeer } from '../../../../src/model/bgp-peer.ts';
import { emptyBlock, type IpBlock } from '../../../../src/model/ip-block.ts';
import { API_VERSION } from '../../../../src/model/resource.ts';
import { at, type Bench, holder, never, pool, type StoreFixture, type StoreTraits } from './bench.ts';
import { ClusterFollower } from './cluster-follower.ts';
import type { Store } from '../../../../src/datastore/store.ts';

interface Parts {
  readonly store: Store;
  readonly other: Store;
  readonly fixture: StoreFixture;
}

const CIDR = '10.0.0.0/26';

/** Registers what holds of following the cluster in every datastore. `parts` is asked when a test runs. */
export function watchClusterContract(
  parts: () => Parts,
  { bench, traits }: { readonly bench: Bench; readonly traits: StoreTraits },
): void {
  const { storedPool, commit, block, createdBlock, update } = bench;
  const [a, b, c] = bench.nodes;
  const followers: ClusterFollower[] = [];
  const follow = async (): Promise<ClusterFollower> => {
    const follower = new ClusterFollower(parts().other);
    followers.push(follower);
    await follower.started();
    return follower;
  };
  /** Writes the block as `change` makes it of what is there. */
  const write = async (change: (before: IpBlock) => IpBlock): Promise<void> => {
    const before = await block(CIDR);
    await commit(update(before, change(before.value)));
  };
  afterEach(async () => {
    for (const follower of followers.splice(0)) await follower.end();
  });

  it('yields a snapshot first', async () => {
    const { store } = parts();
    const from = await storedPool();
    const lent = await createdBlock(CIDR, a, from);
    await commit(update(lent, takeSlot(takeSlot(lent.value, 0, holder('x', a)), 7, holder('y', b))));
    for (const cidr of ['10.0.0.64/26', 'fd00::/122', 'fd00::40/122']) await createdBlock(cidr, b, from);
    await store.createResource(peer('p'), never);
    await store.createResource(configuration({ asNumber: 64_513 }), never);
    await store.createResource(reservation(), never);
    await bench.makeNode(a);
    const follower = await follow();
    expect(follower.changes).toMatchObject([{ kind: 'all', problems: [] }]);
    expect(follower.observed()).toEqual(
      [
        'BGPConfiguration/default',
        'BGPPeer/p',
        'IPPool/blue',
        `Node/${a}`,
        `block 10.0.0.0/26 of ${a}, ${b} has 10.0.0.7`,
        `block 10.0.0.64/26 of ${b}`,
        `block fd00::/122 of ${b}`,
        `block fd00::40/122 of ${b}`,
      ].sort(),
    );
    expect(follower.find('BGPConfiguration', 'default')?.spec.asNumber).toBe(64_513);
  });

  it('yields created, changed and deleted pools, peers and configurations, and no other kinds', async () => {
    const { store } = parts();
    const follower = await follow();
    await store.createResource(pool('blue'), never);
    await follower.sees(1);
    await store.createResource(reservation(), never);
    await store.updateResource({ ...pool('blue'), spec: { ...pool('blue').spec, vxlanMode: 'Always' } }, never);
    await follower.sees(2);
    expect(follower.find('IPPool', 'blue')?.spec.vxlanMode).toBe('Always');
    await store.deleteResource({ kind: 'IPPool', name: 'blue' }, never);
    await follower.sees(3);
    await store.createResource(peer('p'), never);
    await follower.sees(4);
    await store.createResource(configuration({ listenPort: 1790 }), never);
    await follower.sees(5);
    await store.deleteResource({ kind: 'BGPPeer', name: 'p' }, never);
    expect(await follower.sees(6)).toEqual([
      'IPPool/blue',
      'IPPool/blue',
      'IPPool/blue gone',
      'BGPPeer/p',
      'BGPConfiguration/default',
      'BGPPeer/p gone',
    ]);
    expect(follower.find('BGPConfiguration', 'default')?.spec.listenPort).toBe(1790);
  });

  it('yields created, changed and deleted nodes', async () => {
    const follower = await follow();
    await bench.makeNode(a);
    await follower.sees(1);
    await bench.labelNode(a, { rack: '7' });
    await follower.sees(2);
    expect(follower.find('Node', a)?.metadata.labels).toMatchObject({ rack: '7' });
    await bench.removeNode(a);
    expect(await follower.sees(3)).toEqual([`Node/${a}`, `Node/${a}`, `Node/${a} gone`]);
  });

  it('yields another node whenever the facts that its agent publishes change', async () => {
    const follower = await follow();
    await bench.makeNode(b);
    await bench.labelNode(b, { rack: '7' });
    await parts().store.publishNode(b, { ipv4Address: '192.0.2.7/24' }, never);
    await follower.reaches(() => follower.find('Node', b)?.spec.bgp?.ipv4Address === '192.0.2.7/24');
    expect(follower.find('Node', b)?.metadata.labels).toMatchObject({ rack: '7' });
    const count = follower.lines.length;
    await parts().other.publishNode(b, { ipv4Address: '192.0.2.7/24' }, never);
    await parts().store.publishNode(b, { ipv4Address: '192.0.2.8/24' }, never);
    expect(await follower.sees(count + 1)).toHaveLength(count + 1);
    expect(follower.find('Node', b)?.spec.bgp?.ipv4Address).toBe('192.0.2.8/24');
  });

  it('yields no event for an unchanged record', async () => {
    const { store } = parts();
    await store.createResource(pool('blue'), never);
    const follower = await follow();
    await store.updateResource(pool('blue'), never);
    await store.createResource(peer('p'), never);
    expect(await follower.sees(1)).toEqual(['BGPPeer/p']);
  });

  it('yields blocks that are claimed, moved and released', async () => {
    const from = await storedPool();
    const follower = await follow();
    await createdBlock(CIDR, a, from);
    await follower.sees(1);
    for (const [index, owner] of [b, undefined, c].entries()) {
      await write((before) => ({ ...before, node: owner }));
      await follower.sees(2 + index);
    }
    await commit({ kind: 'delete-block', before: await block(CIDR) });
    await follower.sees(5);
    await commit({ kind: 'create-block', block: emptyBlock(at(CIDR), b), pool: from });
    expect(await follower.sees(6)).toEqual([
      `block ${CIDR} of ${a}`,
      `block ${CIDR} of ${b}`,
      `block ${CIDR} of no node`,
      `block ${CIDR} of ${c}`,
      `block ${CIDR} gone`,
      `block ${CIDR} of ${b}`,
    ]);
  });

  it('yields addresses that borrowers hold, and nothing when the owner assigns', async () => {
    const from = await storedPool();
    await createdBlock(CIDR, a, from);
    const follower = await follow();
    const steps: { readonly seen: number; readonly step: (before: IpBlock) => IpBlock }[] = [
      { step: (before) => takeSlot(before, 0, holder('mine', a)), seen: 0 },
      { step: (before) => takeSlot(before, 1, holder('x', b)), seen: 1 },
      { step: (before) => takeSlot(before, 2, holder('mine too', a)), seen: 1 },
      { step: (before) => takeSlot(before, 9, holder('y', b)), seen: 2 },
      { step: (before) => freeSlots(before, new Set(['mine'])), seen: 2 },
      { step: (before) => takeSlot(before, 5, holder('z', c)), seen: 3 },
      { step: (before) => preallocate(before, new Map([[3, 'run#1']])), seen: 3 },
      { step: (before) => freeSlots(before, new Set(['x'])), seen: 4 },
      { step: (before) => freeSlots(before, new Set(['mine too'])), seen: 4 },
      { step: (before) => freeSlots(before, new Set(['y', 'z'])), seen: 5 },
    ];
    for (const { step, seen } of steps) {
      await write(step);
      // A watch that is behind reports several changes of a block as one.
      await follower.sees(seen);
    }
    await createdBlock('10.0.0.64/26', a, from);
    await follower.reaches(() => follower.lines.at(-1) === `block 10.0.0.64/26 of ${a}`);
    expect(follower.lines).toEqual([
      `block ${CIDR} of ${a}, ${b} has 10.0.0.1`,
      `block ${CIDR} of ${a}, ${b} has 10.0.0.1 10.0.0.9`,
      lent(a, [b, '10.0.0.1 10.0.0.9'], [c, '10.0.0.5']),
      lent(a, [b, '10.0.0.9'], [c, '10.0.0.5']),
      `block ${CIDR} of ${a}`,
      `block 10.0.0.64/26 of ${a}`,
    ]);
  });

  it('yields one change when the owner changes, with the old owner as a borrower', async () => {
    const created = await createdBlock(CIDR, a);
    await commit(update(created, takeSlot(takeSlot(created.value, 0, holder('x', a)), 1, holder('y', b))));
    const follower = await follow();
    await write((before) => ({ ...before, node: b }));
    await follower.sees(1);
    await write((before) => ({ ...before, node: undefined }));
    expect(await follower.sees(2)).toEqual([
      `block ${CIDR} of ${b}, ${a} has 10.0.0.0`,
      lent('no node', [a, '10.0.0.0'], [b, '10.0.0.1']),
    ]);
  });

  it('yields a problem for a resource that cannot be decoded, and the value once it can', async () => {
    const { store, fixture } = parts();
    await store.createResource(pool('blue'), never);
    const follower = await follow();
    await fixture.damage({ kind: 'IPPool', name: 'blue' });
    await follower.sees(1);
    expect(follower.changes[1]).toMatchObject({ problem: expect.stringContaining('blue') as string });
    const second = await follow();
    expect(second.changes).toMatchObject([{ problems: [expect.stringContaining('blue') as string] }]);
    await store.updateResource(pool('blue'), never);
    expect(await follower.sees(2)).toEqual(['IPPool/blue gone', 'IPPool/blue']);
    expect(await second.sees(1)).toEqual(['IPPool/blue']);
  });

  it('ends in the stored state after rapid changes', async () => {
    const from = await storedPool();
    const follower = await follow();
    const cidrs = ['10.0.0.0/26', '10.0.0.64/26', '10.0.0.128/26'];
    const owners = [a, b, undefined, c];
    await Promise.all(
      cidrs.map(async (cidr) => {
        let before = await createdBlock(cidr, a, from);
        for (let step = 0; step < (traits.nodes === 'store' ? 40 : 12); step += 1) {
          const base = step % 7 === 0 ? { ...emptyBlock(before.value.cidr, a), node: before.value.node } : before.value;
          const taken = takeSlot(base, step % 7, holder(`${cidr} ${String(step)}`, step % 3 === 0 ? a : b));
          await commit(update(before, step % 5 === 4 ? { ...taken, node: owners[((step / 5) % 4) | 0] } : taken));
          before = await block(cidr);
        }
      }),
    );
    const truth = (await follow()).observed();
    await follower.reaches(() => follower.observed().join() === truth.join());
    expect(follower.changes.filter(({ kind }) => kind === 'all')).toHaveLength(1);
  });
}

function lent(owner: string, ...borrowed: (readonly [node: string, addresses: string])[]): string {
  const parts = borrowed.map(([node, addresses]) => `, ${node} has ${addresses}`);
  return `block ${CIDR} of ${owner}${parts.sort().join('')}`;
}

function peer(name: string): BgpPeer {
  const spec = {
    peerIP: '192.0.2.1',
    asNumber: 64_512,
    keepOriginalNextHop: false,
    sourceAddress: 'UseNodeIP',
  } as const;
  return { apiVersion: API_VERSION, kind: 'BGPPeer', metadata: { name }, spec };
}

function configuration(spec: {
  readonly asNumber?: number;
  readonly listenPort?: number;
}): Parameters<Store['createResource']>[0] {
  return { apiVersion: API_VERSION, kind: 'BGPConfiguration', metadata: { name: 'default' }, spec };
}

function reservation(): Parameters<Store['createResource']>[0] {
  const spec = { reservedCIDRs: ['10.0.0.0/30'] };
  return { apiVersion: API_VERSION, kind: 'IPReservation', metadata: { name: 'r' }, spec };
}
