/* oxlint-disable max-lines -- one suite for the whole port: every datastore runs all of it */
import { freeSlots, takeSlot } from '../../../support/block-edits.ts';
import { freeOperations } from '../../../../src/model/slot-operation.ts';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../src/base/clock.ts';
import { NetplugError } from '../../../../src/base/errors.ts';
import { systemRandom } from '../../../../src/base/random.ts';
import { emptyBlock } from '../../../../src/model/ip-block.ts';
import type { NodeName } from '../../../../src/model/names.ts';
import { DEFAULT_ALLOW } from '../../../../src/model/profile.ts';
import { API_VERSION } from '../../../../src/model/resource.ts';
import { endpointIdOf, type EndpointId, type WorkloadEndpoint } from '../../../../src/model/workload-endpoint.ts';
import { formatAddress } from '../../../../src/net/address.ts';
import { formatCidr } from '../../../../src/net/cidr.ts';
import { assign } from '../../../../src/ipam/assign.ts';
import type { AssignedAddress } from '../../../../src/ipam/plan-assign.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { requestOf } from '../../../support/ipam-bench.ts';
import { at, benchOf, expectCode, holder, never, PLAIN, pool, type StoreFixture, type StoreTraits } from './bench.ts';
import { watchContract } from './watch.ts';
import { newerFieldsContract } from './newer-fields.ts';
import { dryRunContract } from './dry-run.ts';
import { resourceNamesContract } from './resource-names.ts';
import { poolStatusContract } from './pool-status.ts';
import { publishContract } from './publish.ts';
import { followContract } from './follow.ts';
import { watchClusterContract } from './watch-cluster.ts';
import { watchResourcesContract } from './watch-resources.ts';
import { keepClusterInformation } from '../../../../src/datastore/keep-cluster-information.ts';
import { compareEndpointIds } from '../../../../src/datastore/order.ts';
import type { Change } from '../../../../src/datastore/allocation-store.ts';
import type { Store } from '../../../../src/datastore/store.ts';

/** Registers the suite for one kind of datastore. */
export function storeContract(
  name: string,
  makeFixture: () => Promise<StoreFixture>,
  traits: StoreTraits = PLAIN,
): void {
  const isDns = traits.names === 'dns';
  let fixture: StoreFixture;
  let store: Store;
  let other: Store;
  const bench = benchOf(() => ({ store, fixture }), traits);
  const [a, b, c] = bench.nodes;
  const named = (text: string, dns: string): string => (isDns ? dns : text);
  describe(`the ${name} datastore`, () => {
    beforeAll(async () => {
      fixture = await makeFixture();
      store = fixture.open();
      other = fixture.open();
    });
    beforeEach(async () => fixture.reset());
    afterAll(async () => {
      await store[Symbol.asyncDispose]();
      await other[Symbol.asyncDispose]();
      await fixture[Symbol.asyncDispose]();
    });

    const { storedPool, commit, endpoint, block, createdBlock, update } = bench;
    const view = async (node: NodeName, id?: EndpointId): ReturnType<Store['readNodeView']> =>
      other.readNodeView(node, id, never);

    describe('blocks', () => {
      it('are read by every node as they were written', async () => {
        const created = await createdBlock('10.0.0.0/30');
        const taken = takeSlot(created.value, 2, holder('x', a));
        await commit(update(created, taken));
        const freed = freeSlots(takeSlot(taken, 0, holder('y', a)), new Set(['x']));
        await commit(update(await block('10.0.0.0/30'), freed));
        const { owned, borrowed, problems } = await view(a);
        expect(owned.map(({ value }) => value)).toEqual([freed]);
        expect({ borrowed, problems }).toEqual({ borrowed: [], problems: [] });
        expect((await view(b)).owned).toEqual([]);
      });

      it('are read and written with no address left', async () => {
        const created = await createdBlock('10.0.0.0/30');
        const full = [0, 1, 2, 3].reduce(
          (taken, slot) => takeSlot(taken, slot, holder(String(slot), a)),
          created.value,
        );
        await commit(update(created, full));
        const stored = await block('10.0.0.0/30');
        expect(stored.value).toEqual(full);
        const freed = freeSlots(full, new Set(['2']));
        await commit(update(stored, freed));
        expect((await block('10.0.0.0/30')).value).toEqual(freed);
      });

      it('are created once when many try at the same time', async () => {
        const from = await storedPool();
        const outcomes = await Promise.all(
          [a, b, c, a].map(async (node, index) =>
            (index % 2 === 0 ? store : other).commit(
              [{ kind: 'create-block', block: emptyBlock(at('10.0.0.0/26'), node), pool: from }],
              never,
            ),
          ),
        );
        expect(outcomes.sort()).toEqual(['committed', 'conflict', 'conflict', 'conflict']);
        expect((await store.listBlocks(never)).blocks).toHaveLength(1);
      });

      it('are not created from a pool that changed since it was read', async () => {
        const from = await storedPool();
        await store.updateResource({ ...pool('blue'), spec: { ...pool('blue').spec, disabled: true } }, never);
        const change: Change = { kind: 'create-block', block: emptyBlock(at('10.0.0.0/26'), a), pool: from };
        expect(await store.commit([change], never)).toBe('conflict');
        await store.deleteResource({ kind: 'IPPool', name: 'blue' }, never);
        expect(await store.commit([change], never)).toBe('conflict');
        expect(await store.listClaims([at('0.0.0.0/0')], never)).toEqual([]);
      });

      it('are created with their allocations and without a check of pools when copied from another datastore', async () => {
        const moved = takeSlot(takeSlot(emptyBlock(at('10.0.0.0/26'), a), 0, holder('x', a)), 5, holder('y', b));
        const change: Change = { kind: 'create-block', block: moved, pool: undefined };
        await commit(change);
        expect(await store.commit([change], never)).toBe('conflict');
        expect((await block('10.0.0.0/26')).value).toEqual(moved);
        expect((await view(b)).borrowed.map(({ value }) => value)).toEqual([moved]);
        const left = { ...freeSlots(moved, new Set(['x'])), cidr: at('10.0.0.64/26'), node: undefined };
        await commit({ kind: 'create-block', block: left, pool: undefined });
        expect((await block('10.0.0.64/26')).value).toEqual(left);
      });

      it('keep who released an address and when, and the next owner reads it', async () => {
        const before = await createdBlock('10.0.0.0/26');
        await commit(update(before, takeSlot(before.value, 3, { ...holder('x', a), namespace: 'shop', pod: 'web' })));
        const taken = await block('10.0.0.0/26');
        const operations = freeOperations(taken.value, () => true, 1_800_000_000);
        await commit({ kind: 'update-block', before: taken, operations });
        const released = new Map([[3, { at: 1_800_000_000, holder: 'shop/web' }]]);
        const freed = await block('10.0.0.0/26');
        expect(freed.value.released).toEqual(released);
        await commit(update(freed, { ...freed.value, node: b }));
        expect((await view(b)).owned.map(({ value }) => value.released)).toEqual([released]);
      });

      it('are updated by one of two concurrent writers', async () => {
        const before = await createdBlock('10.0.0.0/26');
        const outcomes = await Promise.all([
          store.commit([update(before, takeSlot(before.value, 0, holder('x', a)))], never),
          other.commit([update(before, takeSlot(before.value, 0, holder('y', b)))], never),
        ]);
        expect(outcomes.sort()).toEqual(['committed', 'conflict']);
        expect((await block('10.0.0.0/26')).value.slots.size).toBe(1);
      });

      it('are not updated or deleted after they were deleted', async () => {
        const before = await createdBlock('10.0.0.0/26');
        await commit({ kind: 'delete-block', before });
        expect(await store.commit([update(before, before.value)], never)).toBe('conflict');
        expect(await store.commit([{ kind: 'delete-block', before }], never)).toBe('conflict');
        expect(await store.getBlocks([at('10.0.0.0/26')], never)).toEqual([]);
        expect(await store.listClaims([at('10.0.0.0/26')], never)).toEqual([]);
      });

      it('can be claimed again after they were deleted, and updates of the earlier block are refused', async () => {
        const from = await storedPool();
        const before = await createdBlock('10.0.0.0/26', a, from);
        await commit({ kind: 'delete-block', before });
        await createdBlock('10.0.0.0/26', b, from);
        expect(await store.commit([update(before, before.value)], never)).toBe('conflict');
        expect((await block('10.0.0.0/26')).value.node).toBe(b);
      });

      it('are returned in the requested order, without those that do not exist', async () => {
        const from = await storedPool();
        for (const cidr of ['10.0.0.0/26', '10.0.0.64/26', 'fd00::/122']) await createdBlock(cidr, b, from);
        const asked = ['fd00::/122', '10.0.0.128/26', '10.0.0.64/26', '10.0.0.0/27', '10.0.0.0/26'].map(at);
        const found = await store.getBlocks(asked, never);
        expect(found.map(({ value }) => formatCidr(value.cidr))).toEqual(['fd00::/122', '10.0.0.64/26', '10.0.0.0/26']);
        expect(await store.getBlocks([], never)).toEqual([]);
      });

      it('are listed ordered by CIDR, over several pages', async () => {
        const from = await storedPool();
        const cidrs = ['10.0.0.0/26', '10.0.0.64/26', '10.0.0.128/26', '10.0.1.0/26', '10.0.10.0/26', 'fd00::/122'];
        for (const [index, cidr] of [...cidrs].reverse().entries()) {
          await createdBlock(cidr, index % 2 === 0 ? a : b, from);
        }
        const { blocks, problems } = await store.listBlocks(never);
        expect(blocks.map(({ value }) => formatCidr(value.cidr))).toEqual(cidrs);
        expect(problems).toEqual([]);
        expect((await view(a)).owned).toHaveLength(3);
      });

      it('that cannot be decoded are reported as problems, and do not fail a read of several', async () => {
        const from = await storedPool();
        await createdBlock('10.0.0.0/26', a, from);
        await fixture.damage({ block: await createdBlock('10.0.0.64/26', a, from) });
        const all = await store.listBlocks(never);
        expect([all.blocks.length, all.problems.length]).toEqual([1, 1]);
        const seen = await view(a);
        expect([seen.owned.length, seen.problems.length]).toEqual([1, 1]);
        await expectCode('store/corrupt', store.getBlocks([at('10.0.0.64/26')], never));
        expect(await store.listClaims([at('10.0.0.0/16')], never)).toHaveLength(2);
      });
    });

    describe('borrowed blocks', () => {
      it('are read by a node while it holds an address of them', async () => {
        const created = await createdBlock('10.0.0.0/26');
        const lent = takeSlot(takeSlot(created.value, 0, holder('x', b)), 1, holder('y', b));
        await commit(update(created, lent));
        const seen = await view(b);
        expect([seen.owned, seen.borrowed.map(({ value }) => value)]).toEqual([[], [lent]]);
        expect((await view(a)).borrowed).toEqual([]);
        await commit(update(await block('10.0.0.0/26'), freeSlots(lent, new Set(['x']))));
        expect((await view(b)).borrowed).toHaveLength(1);
        await commit(update(await block('10.0.0.0/26'), freeSlots(lent, new Set(['x', 'y']))));
        expect((await view(b)).borrowed).toEqual([]);
      });

      it('can be written back by the borrower', async () => {
        const created = await createdBlock('10.0.0.0/26');
        await commit(update(created, takeSlot(created.value, 0, holder('x', b))));
        const [before] = (await view(b)).borrowed;
        if (before === undefined) throw new Error('not borrowed');
        await commit(update(before, freeSlots(before.value, new Set(['x']))));
        expect((await block('10.0.0.0/26')).value.slots.size).toBe(0);
      });

      it('stay visible to every borrower when the owner changes or is removed', async () => {
        const created = await createdBlock('10.0.0.0/26');
        const lent = takeSlot(takeSlot(created.value, 0, holder('x', a)), 1, holder('y', b));
        await commit(update(created, lent));
        const who = async (): Promise<unknown> =>
          Promise.all(
            [a, b, c].map(async (node) => {
              const { owned, borrowed } = await view(node);
              return `${String(owned.length)}${String(borrowed.length)}`;
            }),
          );
        expect(await who()).toEqual(['10', '01', '00']);
        for (const [owner, expected] of [
          [c, ['01', '01', '10']],
          [undefined, ['01', '01', '00']],
          [b, ['01', '10', '00']],
          [a, ['10', '01', '00']],
        ] as const) {
          const before = await block('10.0.0.0/26');
          await commit(update(before, { ...before.value, node: owner }));
          expect(await store.listClaims([at('10.0.0.0/26')], never)).toEqual([
            { cidr: at('10.0.0.0/26'), node: owner },
          ]);
          expect(await who()).toEqual(expected);
          expect(await store.commit([update(before, before.value)], never)).toBe('conflict');
        }
        await commit({ kind: 'delete-block', before: await block('10.0.0.0/26') });
        expect(await who()).toEqual(['00', '00', '00']);
      });
    });

    describe('claims', () => {
      it('are found inside and around the requested CIDR, in order, each once', async () => {
        const from = await storedPool();
        const cidrs = ['10.0.0.0/26', '10.0.0.64/26', '10.0.1.0/26', '10.1.0.0/24', 'fd00::/122', 'fd00::40/122'];
        for (const cidr of cidrs) await createdBlock(cidr, b, from);
        const claims = async (...within: string[]): Promise<string[]> =>
          (await store.listClaims(within.map(at), never)).map(({ cidr }) => formatCidr(cidr));
        expect(await claims('::/0', '0.0.0.0/0')).toEqual(cidrs);
        expect(await claims('10.0.0.0/24', '10.0.0.0/16')).toEqual(cidrs.slice(0, 3));
        expect(await claims('10.0.0.65/32')).toEqual(['10.0.0.64/26']);
        expect(await claims('10.0.0.64/26', '10.1.0.128/25')).toEqual(['10.0.0.64/26', '10.1.0.0/24']);
        expect(await claims('fd00::7f/128')).toEqual(['fd00::40/122']);
        expect(await claims('10.2.0.0/16')).toEqual([]);
        expect(await claims()).toEqual([]);
      });
    });

    describe('a commit', () => {
      it('succeeds without changes', async () => {
        expect(await store.commit([], never)).toBe('committed');
      });

      it('applies all of its changes or none', async () => {
        const from = await storedPool();
        const before = await createdBlock('10.0.0.0/26', a, from);
        const taken = update(before, takeSlot(before.value, 0, holder('x', a)));
        const put: Change = { kind: 'put-endpoint', endpoint: endpoint('e') };
        await commit(taken, put);
        const second: Change = { kind: 'create-block', block: emptyBlock(at('10.0.0.64/26'), a), pool: from };
        const newer: Change = { kind: 'put-endpoint', endpoint: endpoint('e', { mac: '0a:00:00:00:00:02' }) };
        expect(await store.commit([newer, second, taken], never)).toBe('conflict');
        expect((await store.listBlocks(never)).blocks).toHaveLength(1);
        expect((await view(a, endpointIdOf(endpoint('e')))).endpoint?.value).toEqual(endpoint('e'));
      });

      it('applies many changes together', async () => {
        const from = await storedPool();
        await commit(
          ...['10.0.0.0/26', 'fd00::/122'].map((cidr): Change => {
            const made = takeSlot(emptyBlock(at(cidr), a), 0, holder(cidr, b));
            return { kind: 'create-block', block: made, pool: from };
          }),
          { kind: 'put-endpoint', endpoint: endpoint('e') },
        );
        expect((await view(a)).owned).toHaveLength(2);
        expect((await view(b)).borrowed).toHaveLength(2);
      });

      it('deletes a pool only at the version that was read', async () => {
        const before = await storedPool();
        const { spec, ...written } = pool('blue');
        await store.updateResource({ ...written, spec: { ...spec, disabled: true } }, never);
        expect(await store.commit([{ kind: 'delete-pool', before }], never)).toBe('conflict');
        const [now] = (await view(a)).pools;
        if (now === undefined) throw new Error('the pool is gone');
        await commit({ kind: 'delete-pool', before: now });
        expect((await view(a)).pools).toEqual([]);
      });
    });

    describe('endpoints', () => {
      it('are found by node, namespace and name, with any characters', async () => {
        const odd = endpoint(named('a/b %2F é-', 'a-b.c'), { node: b, namespace: named('my ns/ü', 'my-ns') });
        const plain = endpoint('a', { node: b, namespace: named('my ns', 'my') });
        await commit({ kind: 'put-endpoint', endpoint: odd }, { kind: 'put-endpoint', endpoint: plain });
        expect((await view(a, endpointIdOf(odd))).endpoint?.value).toEqual(odd);
        expect((await view(a, endpointIdOf(endpoint('other')))).endpoint).toBeUndefined();
        expect((await view(a)).endpoint).toBeUndefined();
      });

      it('are overwritten by the newest attachment', async () => {
        const newer = endpoint('e', { mac: '0a:00:00:00:00:02' });
        await commit({ kind: 'put-endpoint', endpoint: endpoint('e') });
        await commit({ kind: 'put-endpoint', endpoint: newer });
        expect((await view(a, endpointIdOf(newer))).endpoint?.value).toEqual(newer);
      });

      it('are replaced only at the version that was read', async () => {
        const first = endpoint('e');
        const newer = endpoint('e', { mac: '0a:00:00:00:00:02' });
        await commit({ kind: 'put-endpoint', endpoint: first, over: 'none' });
        const { endpoint: over } = await view(a, endpointIdOf(first));
        if (over === undefined) throw new Error('not stored');
        expect(await store.commit([{ kind: 'put-endpoint', endpoint: newer, over: 'none' }], never)).toBe('conflict');
        await commit({ kind: 'put-endpoint', endpoint: newer, over });
        expect(await store.commit([{ kind: 'put-endpoint', endpoint: first, over }], never)).toBe('conflict');
        expect((await view(a, endpointIdOf(first))).endpoint?.value).toEqual(newer);
      });

      it('are not deleted by a late release once replaced', async () => {
        await commit({ kind: 'put-endpoint', endpoint: endpoint('e') });
        const { endpoint: before } = await view(a, endpointIdOf(endpoint('e')));
        if (before === undefined) throw new Error('not stored');
        await commit({ kind: 'put-endpoint', endpoint: endpoint('e', { mac: '0a:00:00:00:00:02' }) });
        expect(await store.commit([{ kind: 'delete-endpoint', before }], never)).toBe('conflict');
        expect((await store.listEndpoints(a, never)).endpoints).toHaveLength(1);
      });

      it('of a pod that runs on stay beside those of the next pod of its name', async () => {
        await storedPool();
        const ports = { store, clock: systemClock, random: systemRandom, log: silentLog };
        const add = async (container: string, podUID: string): Promise<void> => {
          const withAddresses = (assigned: readonly AssignedAddress[]): WorkloadEndpoint => {
            const { spec, ...rest } = endpoint('e');
            const ipNetworks = assigned.map(({ address }) => `${formatAddress(address)}/32`);
            return { ...rest, spec: { ...spec, network: 'net', containerID: container, podUID, ipNetworks } };
          };
          const asked = { id: endpointIdOf(withAddresses([])), withAddresses };
          const limits = { signal: never, cleanupSignal: never };
          await assign(ports, { ...requestOf(container, { node: a }), endpoint: asked }, limits);
        };
        await add('c1', 'u1');
        await add('c2', 'u2');
        const { endpoints } = await store.listEndpoints(a, never);
        expect(endpoints.map(({ value: { spec } }) => [spec.containerID, spec.podUID]).toSorted()).toEqual([
          ['c1', 'u1'],
          ['c2', 'u2'],
        ]);
        expect((await view(a, endpointIdOf(endpoint('e')))).endpoint?.value.spec.containerID).toBe('c2');
      });

      it('are deleted', async () => {
        await commit({ kind: 'put-endpoint', endpoint: endpoint('e') });
        const [now] = (await store.listEndpoints(a, never)).endpoints;
        if (now === undefined) throw new Error('deleted');
        await commit({ kind: 'delete-endpoint', before: now });
        expect(await store.listEndpoints(undefined, never)).toMatchObject({ endpoints: [], problems: [] });
      });

      it('that cannot be decoded are reported as problems, and do not fail a list', async () => {
        for (const name of ['d', 'e']) await commit({ kind: 'put-endpoint', endpoint: endpoint(name) });
        await fixture.damage({ endpoint: endpointIdOf(endpoint('d')) });
        const { endpoints, problems } = await store.listEndpoints(a, never);
        expect([endpoints.length, problems.length]).toEqual([1, 1]);
      });

      it('are listed for one node or all, ordered by namespace and name, over several pages', async () => {
        const all = [
          endpoint('a', { namespace: 'ns-1', node: c }),
          endpoint('b', { namespace: 'ns-1', node: a }),
          endpoint(named('b b', 'b-b'), { namespace: 'ns-1', node: b }),
          endpoint('a', { namespace: 'ns-2', node: a }),
          endpoint(named('é', 'e'), { namespace: 'ns-2', node: c }),
        ].sort((x, y) => compareEndpointIds(endpointIdOf(x), endpointIdOf(y)));
        const ofA = all.filter(({ spec }) => spec.node === a);
        expect(ofA).toHaveLength(2);
        for (const made of [...all].reverse()) await commit({ kind: 'put-endpoint', endpoint: made });
        expect((await store.listEndpoints(undefined, never)).endpoints.map(({ value }) => value)).toEqual(all);
        expect((await store.listEndpoints(a, never)).endpoints.map(({ value }) => value)).toEqual(ofA);
        expect((await store.listEndpoints('node' as NodeName, never)).endpoints).toEqual([]);
      });
    });

    describe('resources', () => {
      it('get a UID and a version, and may have any valid name', async () => {
        const poolName = named('blue/green % é', 'blue.green');
        const made = await store.createResource(pool(poolName), never);
        expect(made.metadata).toMatchObject({
          name: poolName,
          uid: expect.stringMatching(/./) as string,
          creationTimestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) as string,
          resourceVersion: expect.stringMatching(/./) as string,
        });
        expect(await other.findResource({ kind: 'IPPool', name: poolName }, never)).toEqual(made);
        expect(await other.findResource({ kind: 'Node', name: poolName }, never)).toBeUndefined();
        await expectCode('resource/exists', store.createResource(pool(poolName), never));
      });

      it('are listed ordered by name, over several pages', async () => {
        const names = ['c', 'a', named('b/1', 'b.1'), named('é', 'e'), named('B', '0')];
        for (const made of names) await store.createResource(pool(made), never);
        const { resources, problems } = await store.listResources('IPPool', never);
        expect(resources.map(({ metadata }) => metadata.name)).toEqual([
          named('B', '0'),
          'a',
          named('b/1', 'b.1'),
          'c',
          named('é', 'e'),
        ]);
        expect(problems).toEqual([]);
        expect((await store.listResources('IPReservation', never)).resources).toEqual([]);
      });

      it('keep their UID when replaced, and unknown fields when written back', async () => {
        const odd = { ...pool('blue'), spec: { ...pool('blue').spec, colour: { shade: 'navy' } } };
        const made = await store.createResource(odd, never);
        const replaced = await store.updateResource(
          { ...pool('blue'), metadata: { name: 'blue', uid: 'mine' } },
          never,
        );
        expect(replaced.metadata.uid).toBe(made.metadata.uid);
        expect(replaced.metadata.creationTimestamp).toBe(made.metadata.creationTimestamp);
        await store.updateResource(odd, never);
        const read = await store.findResource({ kind: 'IPPool', name: 'blue' }, never);
        if (read === undefined) throw new Error('not found');
        const written = await store.updateResource({ ...read, spec: { ...read.spec, disabled: true } }, never);
        expect(written.spec).toEqual({ ...odd.spec, disabled: true });
        expect(await store.findResource({ kind: 'IPPool', name: 'blue' }, never)).toEqual(written);
      });

      it('are updated only at their version when it is given', async () => {
        const made = await store.createResource(pool('blue'), never);
        const changed = { ...pool('blue'), metadata: made.metadata, spec: { ...pool('blue').spec, disabled: true } };
        const newer = await store.updateResource(changed, never);
        expect(newer.metadata.resourceVersion).not.toBe(made.metadata.resourceVersion);
        await expectCode('resource/changed', store.updateResource(made, never));
        const odd = { ...made, metadata: { ...made.metadata, resourceVersion: 'not a version' } };
        await expectCode('resource/changed', store.updateResource(odd, never));
        const which = { kind: 'IPPool', name: 'blue' } as const;
        const { resourceVersion = '' } = made.metadata;
        await expectCode('resource/changed', store.deleteResource({ ...which, resourceVersion }, never));
        await store.deleteResource({ ...which, resourceVersion: newer.metadata.resourceVersion ?? '' }, never);
        expect(await store.findResource({ kind: 'IPPool', name: 'blue' }, never)).toBeUndefined();
      });

      it('are neither replaced nor deleted when they do not exist', async () => {
        await expectCode('resource/not-found', store.updateResource(pool('blue'), never));
        await expectCode('resource/not-found', store.deleteResource({ kind: 'IPPool', name: 'blue' }, never));
        const which = { kind: 'IPPool', name: 'blue', resourceVersion: '1' } as const;
        await expectCode('resource/not-found', store.deleteResource(which, never));
        await store.createResource(pool('blue'), never);
        await store.deleteResource({ kind: 'IPPool', name: 'blue' }, never);
        expect((await store.listResources('IPPool', never)).resources).toEqual([]);
      });

      it('replaced by many writers without a version end as one of these writes', async () => {
        await store.createResource(pool('blue'), never);
        const { spec, ...written } = pool('blue');
        const selectors = ["rack == '1'", "rack == '2'", "rack == '3'"];
        const write = async (nodeSelector: string): Promise<unknown> =>
          store.updateResource({ ...written, spec: { ...spec, nodeSelector } }, never);
        await Promise.all(selectors.map(write));
        const { nodeSelector } = (await store.findResource({ kind: 'IPPool', name: 'blue' }, never))?.spec ?? {};
        expect(selectors).toContain(nodeSelector);
      });

      it('record one ID and the newest release of the cluster when many agents start at the same time', async () => {
        const releases = ['v3.27.0', 'v3.27.2', 'v3.27.1', 'v3.26.9'];
        await Promise.all(
          releases.map(async (version, index) => {
            const ports = { store: index % 2 === 0 ? store : other, clock: systemClock, random: systemRandom };
            await keepClusterInformation(ports, { version, types: ['kv'] }, never);
          }),
        );
        const { resources } = await store.listResources('ClusterInformation', never);
        expect(resources.map(({ spec }) => spec)).toEqual([
          {
            clusterGUID: expect.stringMatching(/^[0-9a-f]{32}$/) as string,
            clusterType: 'kv',
            netplugVersion: 'v3.27.2',
            datastoreReady: true,
          },
        ]);
      });

      it('appear in the view of a node', async () => {
        await storedPool('b');
        await storedPool('a');
        const made = { apiVersion: API_VERSION, metadata: { name: 'r' } } as const;
        await store.createResource({ ...made, kind: 'IPReservation', spec: { reservedCIDRs: ['10.0.0.0/30'] } }, never);
        const written = { ...made, kind: 'Node', metadata: { name: b }, spec: {} } as const;
        if (fixture.putNode === undefined) await store.createResource(written, never);
        else await fixture.putNode(b);
        const node = await store.findResource({ kind: 'Node', name: b }, never);
        expect(node).toMatchObject({ metadata: { name: b, uid: expect.stringMatching(/./) as string } });
        const before = await view(b);
        expect(before.pools.map(({ value }) => value.metadata.name)).toEqual(['a', 'b']);
        expect(before.pools.map(({ value, version }) => value.metadata.resourceVersion === version)).toEqual([
          true,
          true,
        ]);
        expect(before.reservations.map(({ spec }) => spec.reservedCIDRs)).toEqual([['10.0.0.0/30']]);
        expect(before.config).toEqual({ strictAffinity: false, maxBlocksPerNode: 0, cooldownSeconds: 30 });
        expect(before.node).toEqual(node);
        expect((await view(a)).node).toBeUndefined();
        const spec = { strictAffinity: true, maxBlocksPerNode: 7, cooldownSeconds: 0 };
        await store.createResource({ ...made, kind: 'IPAMConfiguration', metadata: { name: 'default' }, spec }, never);
        expect((await view(a)).config).toEqual(spec);
        const cluster = { ...made, kind: 'ClusterInformation', metadata: { name: 'default' } } as const;
        expect(before.isLocked).toBe(false);
        await store.createResource({ ...cluster, spec: { datastoreReady: false } }, never);
        expect((await view(a)).isLocked).toBe(true);
        await store.updateResource({ ...cluster, spec: { datastoreReady: true } }, never);
        expect((await view(a)).isLocked).toBe(false);
      });

      it('are listed when built in, although they are not stored, and then cannot be written', async () => {
        const own = { ...DEFAULT_ALLOW, metadata: { name: 'own' } };
        await store.createResource(own, never);
        const { resources } = await store.listResources('Profile', never);
        expect(resources.map(({ metadata }) => metadata.name)).toEqual(['netplug-default-allow', 'own']);
        const which = { kind: 'Profile', name: 'netplug-default-allow' } as const;
        expect(await store.findResource(which, never)).toEqual(DEFAULT_ALLOW);
        await expectCode('resource/not-writable', store.createResource(DEFAULT_ALLOW, never));
        await expectCode('resource/not-writable', store.updateResource(DEFAULT_ALLOW, never));
        await expectCode('resource/not-writable', store.deleteResource(which, never));
      });

      if (traits.nodes === 'orchestrator') {
        it('are written by the orchestrator only when of kind Node', async () => {
          const node = { apiVersion: API_VERSION, kind: 'Node', metadata: { name: a }, spec: {} } as const;
          await expectCode('resource/not-writable', store.createResource(node, never));
          await expectCode('resource/not-writable', store.updateResource(node, never));
          await expectCode('resource/not-writable', store.deleteResource({ kind: 'Node', name: a }, never));
          await fixture.putNode?.(a);
          expect((await store.listResources('Node', never)).resources).toHaveLength(1);
        });
      }

      it('that cannot be decoded are reported as problems, and can be replaced or deleted', async () => {
        for (const made of ['a', 'b', 'c']) await store.createResource(pool(made), never);
        for (const made of ['b', 'c']) await fixture.damage({ kind: 'IPPool', name: made });
        const listed = await store.listResources('IPPool', never);
        expect([listed.resources.length, listed.problems.length]).toEqual([1, 2]);
        const seen = await view(a);
        expect([seen.pools.length, seen.problems.length]).toEqual([1, 2]);
        await expectCode('store/corrupt', store.findResource({ kind: 'IPPool', name: 'b' }, never));
        await store.updateResource(pool('b'), never);
        await store.deleteResource({ kind: 'IPPool', name: 'c' }, never);
        expect((await store.listResources('IPPool', never)).problems).toEqual([]);
      });
    });

    describe('names of resources', () => {
      resourceNamesContract(() => ({ store, other, fixture }), traits);
    });

    describe('what a newer release has stored', () => {
      newerFieldsContract(() => ({ store, other }), traits);
    });

    describe('the status of a pool', () => {
      poolStatusContract(() => ({ store, other }), { bench });
    });

    describe('a dry run', () => {
      dryRunContract(() => ({ store, other }));
    });

    describe('a signal', () => {
      it('prevents a call when it was aborted before', async () => {
        const over = AbortSignal.abort();
        const put: Change = { kind: 'put-endpoint', endpoint: endpoint('e') };
        await expectCode('store/unavailable', store.commit([put], over));
        await expectCode('store/unavailable', store.readNodeView(a, undefined, over));
        await expectCode('store/unavailable', store.ping(over));
        await expectCode('store/unavailable', store.createResource(pool('blue'), over));
        expect(await store.listEndpoints(undefined, never)).toMatchObject({ endpoints: [], problems: [] });
        expect((await store.listResources('IPPool', never)).resources).toEqual([]);
      });

      it('makes the call fail with its reason when that is an error of netplug', async () => {
        const deadline = new NetplugError('cni/deadline', 'Cannot go on: time is up');
        expect(await expectCode('cni/deadline', store.ping(AbortSignal.abort(deadline)))).toBe(deadline);
      });
    });

    describe('a watch', () => {
      watchContract(() => ({ store, other, fixture }), { bench, traits });
    });

    describe('a watch of the cluster', () => {
      watchClusterContract(() => ({ store, other, fixture }), { bench, traits });
    });

    describe('following', () => {
      followContract(() => ({ store, other }), bench, traits);
    });

    describe('a watch of resources', () => {
      watchResourcesContract(() => ({ store, other, fixture }), bench);
    });

    describe('publishing a node', () => {
      publishContract(() => ({ store, other }), { bench, traits });
    });

    it('answers a ping', async () => {
      await expect(store.ping(never)).resolves.toBeUndefined();
    });
  });
}
