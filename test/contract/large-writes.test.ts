// What one call asks for may be more than the datastore takes at once.
import { preallocate, takeSlot, updateTo } from '../support/block-edits.ts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { release } from '../../src/ipam/release.ts';
import { type Allocation, emptyBlock } from '../../src/model/ip-block.ts';
import { handleOf } from '../../src/model/names.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { type Etcd, startEtcd } from '../support/etcd.ts';
import { nodeName, poolOf } from '../support/fixtures.ts';
import { newRunId } from '../../src/ipam/node/run-id.ts';
import { attachmentOf } from '../support/ipam-bench.ts';
import { residentOn, World } from '../support/resident-world.ts';
import { until } from '../support/until.ts';

const BLOCKS = 150;
const [BORROWER, OWNER] = [nodeName('n1'), nodeName('n2')];
const signal = new AbortController().signal;

describe('a node with more to give back than one transaction of etcd takes', () => {
  let etcd: Etcd;
  let store: Store;
  let world: World;
  beforeAll(async () => {
    etcd = await startEtcd();
    store = open();
    world = new World();
    await store.createResource(poolOf('v4', '10.0.0.0/16', { blockSize: 29 }), signal);
  });
  afterAll(async () => {
    await world.end();
    await store[Symbol.asyncDispose]();
    await etcd[Symbol.asyncDispose]();
  });

  const open = (): Store =>
    openKvStore({
      endpoints: { from: 'list', urls: [etcd.url] },
      keyFile: undefined,
      certFile: undefined,
      caCertFile: undefined,
    });
  const borrowed = async (): Promise<number> => (await store.readNodeView(BORROWER, undefined, signal)).borrowed.length;
  const borrowFromAll = async (): Promise<void> => {
    const [pool] = (await store.readNodeView(BORROWER, undefined, signal)).pools;
    for (let index = 0; index < BLOCKS; index += 1) {
      const cidr = parseCidr(`10.0.${String(index)}.0/29`);
      const attachment = attachmentOf(`c${String(index)}`);
      const allocation: Allocation = {
        id: `a${String(index)}`,
        node: BORROWER,
        ...attachment,
        handle: handleOf(attachment),
        at: '2026-01-01T00:00:00Z',
        chosenBy: 'request',
      };
      const [before] = await store.getBlocks([cidr], signal);
      const block = takeSlot(before?.value ?? emptyBlock(cidr, OWNER), 1, allocation);
      await store.commit(
        [before === undefined ? { kind: 'create-block', block, pool } : updateTo(before, block)],
        signal,
      );
    }
    expect(await borrowed()).toBe(BLOCKS);
  };

  it('releases everything when the plugin runs without an agent', async () => {
    await borrowFromAll();
    const ports = { store, clock: systemClock, random: systemRandom, log: silentLog };
    expect(await release(ports, { node: BORROWER, which: () => true }, signal)).toHaveLength(BLOCKS);
    expect(await borrowed()).toBe(0);
  });

  it('releases everything through its agent, and continues to assign', async () => {
    await borrowFromAll();
    const agent = await residentOn(world, { inner: open(), name: BORROWER });
    await until(() => agent.node.state.isReady, 'the agent is ready');
    const ports = { store: agent.store, clock: systemClock, random: systemRandom, log: silentLog };
    expect(await release(ports, { node: BORROWER, which: () => true }, signal)).toHaveLength(BLOCKS);
    await until(async () => (await borrowed()) === 0, 'everything is given back');
    expect(await agent.add('next')).toHaveLength(1);
    await agent.node.drain(signal);
    await agent.kill();
  });

  it('reclaims the pre-allocated addresses of an agent that left some in every block', async () => {
    const claims = await store.listClaims([parseCidr('10.0.0.0/16')], signal);
    const blocks = await store.getBlocks(
      claims.map(({ cidr }) => cidr),
      signal,
    );
    const run = newRunId({ machine: BORROWER, boot: 'one' }, systemRandom);
    for (const [index, before] of blocks.entries()) {
      const after = { ...preallocate(before.value, new Map([[5, `${run}#${String(index)}`]])), node: BORROWER };
      expect(await store.commit([updateTo(before, after)], signal)).toBe('committed');
    }
    const withPreallocated = async (): Promise<number> =>
      (await store.readNodeView(BORROWER, undefined, signal)).owned.filter(({ value }) => value.preallocated.size > 0)
        .length;
    expect(await withPreallocated()).toBe(blocks.length);
    await residentOn(world, { inner: open(), name: BORROWER, warmPoolFloor: 0 });
    await until(async () => (await withPreallocated()) === 0, 'the addresses that the run pre-allocated are reclaimed');
  });
});
