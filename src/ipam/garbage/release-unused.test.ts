import { beforeEach, describe, expect, it } from 'vitest';
import { poolOf } from '../../../test/support/fixtures.ts';
import { IpamBench } from '../../../test/support/ipam-bench.ts';
import { type HeldAddress, heldAddresses } from '../../model/ip-block.ts';
import { formatAddress } from '../../net/address.ts';
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
    const suspects = { held: await held(), fates: ['at-once'] } as const;
    const released = await releaseUnused({ ...bench.ports(), live }, suspects, bench.signal);
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
});
