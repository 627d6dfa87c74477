// What a commit of two blocks leaves of the first one when another writer changes the second one before it.
import { freeSlots, preallocate, takeSlot, updateTo } from '../support/block-edits.ts';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { holder } from './suites/datastore/bench.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Change, Stored } from '../../src/datastore/allocation-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { emptyBlock, heldAddresses, type IpBlock } from '../../src/model/ip-block.ts';
import { formatAddress } from '../../src/net/address.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { nodeName, poolOf } from '../support/fixtures.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { type Fate, type Proxy, startProxy } from '../support/orch-proxy.ts';

const never = new AbortController().signal;

describe('writers of the datastore in the API of the orchestrator', () => {
  let server: OrchApiServer;
  let proxy: Proxy;
  let straight: Store;
  let delayed: Store;
  beforeAll(async () => {
    server = await startOrchApiServer();
    proxy = await startProxy(server, await server.callerToken('plugin'));
    straight = openOrchStore({ from: 'file', path: await server.callerConfig('admin tool') });
    delayed = openOrchStore({ from: 'api-root', url: proxy.url }, { limits: { answerMs: 1000 } });
  });
  beforeEach(async () => {
    await server.empty();
    await straight.createResource(poolOf('blue', '10.0.0.0/24'), never);
  });
  afterAll(async () => {
    for (const part of [straight, delayed, proxy, server]) await part?.[Symbol.asyncDispose]();
  });
  const held = async (): Promise<string[]> =>
    (await straight.listBlocks(never)).blocks.flatMap(({ value }) =>
      heldAddresses(value).map(({ address, allocation }) => `${allocation.containerId} ${formatAddress(address)}`),
    );

  describe('of two blocks, the second of which another writer changes first', () => {
    const node = nodeName('n1');
    let first: Stored<IpBlock>;
    let second: Stored<IpBlock>;
    beforeEach(async () => {
      const pool = (await straight.readNodeView(node, undefined, never)).pools[0]!;
      const [one, two] = ['10.0.0.0/26', '10.0.0.64/26'].map((cidr) => emptyBlock(parseCidr(cidr), node));
      const made = [takeSlot(one!, 0, holder('old', node)), two!];
      await straight.commit(
        made.map((block): Change => ({ kind: 'create-block', block, pool })),
        never,
      );
      [first, second] = (await straight.getBlocks([one!.cidr, two!.cidr], never)) as [Stored<IpBlock>, Stored<IpBlock>];
    });
    const taking = (before: Stored<IpBlock>, ...taken: [number, string][]): Change & { kind: 'update-block' } =>
      updateTo(
        before,
        taken.reduce((block, [ordinal, name]) => takeSlot(block, ordinal, holder(name, node)), before.value),
      );

    it('never undo what was confirmed to a caller, even with a third writer in between', async () => {
      let isFirst = true;
      proxy.fate = async (method, url): Promise<Fate> => {
        if (!isFirst || method !== 'PUT' || !url.pathname.endsWith('10-0-0-64-26')) return 'pass';
        isFirst = false;
        const [now] = await straight.getBlocks([first.value.cidr], never);
        await straight.commit([taking(second, [7, 'quick']), taking(now!, [3, 'third'])], never);
        return 'pass';
      };
      const change = { ...taking(first, [1, 'confirmed'], [2, 'unconfirmed']), returned: new Set(['confirmed']) };
      expect(await delayed.commit([change, taking(second, [1, 'late'])], never)).toBe('conflict');
      expect(isFirst).toBe(false);
      expect((await held()).sort()).toEqual([
        'confirmed 10.0.0.1',
        'old 10.0.0.0',
        'quick 10.0.0.71',
        'third 10.0.0.3',
      ]);
    });

    it('keeps releases and pre-allocations that a watch has reported meanwhile', async () => {
      await straight.commit([taking(second, [7, 'quick'])], never);
      const taken = takeSlot(first.value, 1, holder('unconfirmed', node));
      const after = preallocate(freeSlots(taken, new Set(['old'])), new Map([[5, 'run#1']]));
      expect(await straight.commit([updateTo(first, after), taking(second, [1, 'late'])], never)).toBe('conflict');
      expect(await held()).toEqual(['quick 10.0.0.71']);
      const [now] = await straight.getBlocks([first.value.cidr], never);
      expect([...now!.value.preallocated]).toEqual([[5, 'run#1']]);
    });
  });
});
