import { describe, expect, it } from 'vitest';
import { systemClock } from '../base/clock.ts';
import { silentLog } from '../base/log.ts';
import { systemRandom } from '../base/random.ts';
import { MemoryDatabase } from '../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../datastore/memory/memory-store.ts';
import { emptyBlock, heldAddresses } from '../model/ip-block.ts';
import { parseAddress } from '../net/address.ts';
import { parseCidr } from '../net/cidr.ts';
import { nodeName, poolOf } from '../../test/support/fixtures.ts';
import { attachmentOf } from '../../test/support/ipam-bench.ts';
import { type AssertedAddresses, restoreUsedAddresses } from './restore-used-addresses.ts';
import { type AddressInUse, addressInUseKey } from './plan-assertion.ts';

const signal = new AbortController().signal;
const clock = { ...systemClock, sleep: async () => Promise.resolve() };
const NODE = nodeName('n1');

const livingOf = (address: string, container: string): AddressInUse => ({
  address: parseAddress(address),
  owner: attachmentOf(container),
});

/** A node that owns 10.0.0.0/26 of which nothing is recorded. */
class Bench {
  readonly database = new MemoryDatabase();
  readonly inner = openMemoryStore(this.database);
  readonly living: AddressInUse[] = [];
  readonly pending = new Set<string>();
  /** Decides whether a write loses against another writer. */
  losesRace: () => boolean = () => false;

  static async start(): Promise<Bench> {
    const bench = new Bench();
    await bench.inner.createResource(poolOf('v4', '10.0.0.0/24', { blockSize: 26 }), signal);
    const { pools } = await bench.inner.readNodeView(NODE, undefined, signal);
    const block = emptyBlock(parseCidr('10.0.0.0/26'), NODE);
    await bench.inner.commit([{ kind: 'create-block', block, pool: pools[0] }], signal);
    return bench;
  }

  async run(): Promise<AssertedAddresses> {
    const store = openMemoryStore(this.database, {
      fault: (operation) => (operation === 'commit' && this.losesRace() ? { kind: 'conflict' } : undefined),
    });
    const listAddressesInUse = async (): Promise<AddressInUse[]> => Promise.resolve([...this.living]);
    return restoreUsedAddresses(
      { store, clock, random: systemRandom, log: silentLog, listAddressesInUse },
      { node: NODE, known: () => new Map(), pending: () => this.pending },
      signal,
    );
  }

  async holders(): Promise<string[]> {
    const { owned } = await this.inner.readNodeView(NODE, undefined, signal);
    return owned.flatMap(({ value }) => heldAddresses(value)).map(({ allocation }) => allocation.containerId);
  }
}

describe('the assertion of living links', () => {
  it('fails, and claims nothing, when other writers win every time', async () => {
    const bench = await Bench.start();
    bench.living.push(livingOf('10.0.0.5', 'a'));
    bench.losesRace = () => true;
    await expect(bench.run()).rejects.toMatchObject({ code: 'store/conflict' });
    expect(await bench.holders()).toEqual([]);
  });

  it('leaves to a pending write what a call assigns between two of its tries', async () => {
    const bench = await Bench.start();
    bench.living.push(livingOf('10.0.0.5', 'a'));
    bench.losesRace = () => {
      if (bench.pending.size > 0) return false;
      const meanwhile = livingOf('10.0.0.6', 'b');
      bench.pending.add(addressInUseKey(meanwhile));
      bench.living.push(meanwhile);
      return true;
    };
    await bench.run();
    expect(await bench.holders()).toEqual(['a']);
  });

  it('reports what its earlier tries recorded', async () => {
    const bench = await Bench.start();
    const [lost, alsoLost] = [livingOf('10.0.0.5', 'a'), livingOf('10.0.0.70', 'b')];
    bench.living.push(lost, alsoLost);
    let writes = 0;
    bench.losesRace = () => (writes += 1) === 2;
    expect((await bench.run()).asserted).toEqual([lost, alsoLost]);
    expect(await bench.holders()).toEqual(['a', 'b']);
  });

  it('records nothing again that is recorded', async () => {
    const bench = await Bench.start();
    bench.living.push(livingOf('10.0.0.5', 'a'));
    await bench.run();
    expect(await bench.run()).toEqual({ asserted: [], conflicts: [] });
  });
});
