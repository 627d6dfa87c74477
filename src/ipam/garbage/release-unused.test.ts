import { beforeEach, describe, expect, it } from 'vitest';
import { poolOf } from '../../../test/support/fixtures.ts';
import { IpamBench } from '../../../test/support/ipam-bench.ts';
import { type HeldAddress, heldAddresses } from '../../model/ip-block.ts';
import { formatAddress } from '../../net/address.ts';
import { addressInUseKey } from '../plan-assertion.ts';
import { restoreUsedAddresses } from '../restore-used-addresses.ts';
import { releaseUnused } from './release-unused.ts';
import type { LiveView, NodeStanding } from './views.ts';

const ASKED = '10.0.0.9';

describe('the release of an address that a pod asked for', () => {
  let bench: IpamBench;
  let standing: NodeStanding;
  /** What happens once the API has told of the pod. */
  let meanwhile: () => void | Promise<unknown>;

  beforeEach(async () => {
    bench = await IpamBench.with(poolOf('v4', '10.0.0.0/24'), poolOf('v6', 'fd00::/112'));
    standing = 'out-of-service';
    meanwhile = () => undefined;
    await bench.assign('old', { node: 'n1', pod: 'db-0', ip: ASKED, families: '46' });
  });

  const held = async (): Promise<HeldAddress[]> => {
    const { blocks } = await bench.ports().store.listBlocks(bench.signal);
    return blocks.flatMap(({ value }) => heldAddresses(value));
  };
  const releases = async (): Promise<readonly string[]> => {
    const live: LiveView = {
      findPod: async () => {
        await meanwhile();
        return undefined;
      },
      standingOf: async () => Promise.resolve(standing),
    };
    const suspects = { held: await held(), fates: ['at-once'], onReleased: async () => Promise.resolve() } as const;
    const { released } = await releaseUnused({ ...bench.ports(), live }, suspects, bench.signal);
    return released.map(({ address }) => formatAddress(address));
  };

  it('leaves the address of the other family that the pod did not ask for', async () => {
    expect(await releases()).toEqual([ASKED]);
    expect((await held()).map(({ address }) => address.family)).toEqual([6]);
  });

  it('is not made when the node is in service again before the API has told of both', async () => {
    meanwhile = () => void (standing = 'present');
    expect(await releases()).toEqual([]);
    expect(await held()).toHaveLength(2);
  });

  it('is not made of a node whose Node was deleted meanwhile: that says nothing of the machine', async () => {
    meanwhile = () => void (standing = 'gone');
    expect(await releases()).toEqual([]);
  });

  it('leaves the address to the one that has it since', async () => {
    meanwhile = async () => {
      await bench.release('old');
      await bench.assign('new', { node: 'n2', pod: 'db-0', ip: ASKED });
    };
    expect(await releases()).toEqual([]);
    expect((await held()).map(({ allocation }) => allocation.containerId)).toEqual(['new']);
  });

  it('leaves the address when the agent of the node has recorded it again under the same id, as found in use', async () => {
    const [first] = await held();
    if (first === undefined) throw new Error('nothing is held');
    const { address, allocation } = first;
    const living = { address, owner: allocation };
    meanwhile = async () => {
      meanwhile = () => undefined;
      await bench.release('old');
      const known = new Map([[addressInUseKey(living), { ...allocation, chosenBy: 'living-link' } as const]]);
      await restoreUsedAddresses(
        { ...bench.ports(), listAddressesInUse: async () => Promise.resolve([living]) },
        { node: allocation.node, known: () => known, pending: () => new Set() },
        bench.signal,
      );
    };
    expect(await releases()).toEqual([]);
    expect((await held()).map(({ allocation: { id } }) => id)).toEqual([allocation.id]);
  });

  it('of one node is made, and reported at once, although another node cannot be read', async () => {
    await bench.assign('far', { node: 'n2', pod: 'db-1', ip: '10.0.0.10' });
    await bench.assign('farther', { node: 'n3', pod: 'db-2', ip: '10.0.0.11' });
    const reported: string[] = [];
    const cause = new Error('n2 cannot be read');
    const live: LiveView = {
      findPod: async () => Promise.resolve(undefined),
      standingOf: async (node) => (node === 'n2' ? Promise.reject(cause) : Promise.resolve('out-of-service')),
    };
    const onReleased = async (released: readonly HeldAddress[]): Promise<void> =>
      Promise.resolve(void reported.push(...released.map((each) => formatAddress(each.address))));
    const suspects = { held: await held(), fates: ['at-once'], onReleased } as const;
    const { failures } = await releaseUnused({ ...bench.ports(), live }, suspects, bench.signal);
    expect(failures).toEqual([cause]);
    expect(reported).toEqual([ASKED, '10.0.0.11']);
  });
});
