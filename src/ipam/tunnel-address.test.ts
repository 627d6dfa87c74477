import { describe, expect, it } from 'vitest';
import { nodeName, poolOf } from '../../test/support/fixtures.ts';
import { IpamBench } from '../../test/support/ipam-bench.ts';
import { heldAddresses } from '../model/ip-block.ts';
import type { IpPool } from '../model/ip-pool.ts';
import { isTunnelAddress } from '../model/tunnel-attachment.ts';
import { type Address, formatAddress, parseAddress } from '../net/address.ts';
import { ensureTunnelAddress } from './tunnel-address.ts';

async function keep(
  ipam: IpamBench,
  node: string,
  pool?: IpPool,
  more: { readonly present?: Address } = {},
): Promise<string | undefined> {
  const { signal } = ipam;
  const pools = pool === undefined ? [] : [pool];
  const request = { node: nodeName(node), device: 'vxlan.netplug', family: 4, pools, ...more } as const;
  const address = await ensureTunnelAddress(ipam.ports(), request, { signal, cleanupSignal: signal });
  return address === undefined ? undefined : formatAddress(address);
}

/** Returns the node that holds each tunnel address. */
async function holders(ipam: IpamBench): Promise<Record<string, string>> {
  const { blocks } = await ipam.ports().store.listBlocks(ipam.signal);
  const held = blocks.flatMap(({ value }) => heldAddresses(value, isTunnelAddress));
  return Object.fromEntries(held.map(({ address, allocation }) => [formatAddress(address), allocation.node]));
}

describe('the address of a tunnel device', () => {
  it('is another on each node, when the nodes share one block', async () => {
    const pool = poolOf('v4', '10.0.0.0/30', { blockSize: 30, vxlanMode: 'Always' });
    const ipam = await IpamBench.with(pool);
    const given = [];
    for (const node of ['n1', 'n2', 'n3', 'n4']) given.push(await keep(ipam, node, pool));
    expect(new Set(given)).toEqual(new Set(['10.0.0.0', '10.0.0.1', '10.0.0.2', '10.0.0.3']));
    expect(Object.values(await holders(ipam)).sort()).toEqual(['n1', 'n2', 'n3', 'n4']);
    for (const [at, node] of ['n1', 'n2', 'n3', 'n4'].entries()) expect(await keep(ipam, node, pool)).toBe(given[at]);
    await expect(keep(ipam, 'n5', pool)).rejects.toMatchObject({ code: 'ipam/exhausted' });
    expect(await keep(ipam, 'n2')).toBeUndefined();
    expect(await keep(ipam, 'n5', pool)).toBe(given[1]);
    expect(await keep(ipam, 'n1', pool)).toBe(given[0]);
  });

  it('is held again when the datastore has lost it, unless another has it by now or its pool is closed', async () => {
    const pool = poolOf('v4', '10.0.0.0/24', { blockSize: 29, vxlanMode: 'Always' });
    const ipam = await IpamBench.with(pool);
    for (const each of ['a', 'b', 'c']) await ipam.assign(each);
    const given = await keep(ipam, 'n1', pool);
    const present = parseAddress(given ?? '');
    const lose = async (): Promise<void> => {
      const { blocks } = await ipam.ports().store.listBlocks(ipam.signal);
      for (const before of blocks) await ipam.ports().store.commit([{ kind: 'delete-block', before }], ipam.signal);
    };
    await lose();
    expect(await keep(ipam, 'n1', pool, { present })).toBe(given);
    await lose();
    await ipam.assign('d', { ip: given! });
    expect(await keep(ipam, 'n1', pool, { present })).not.toBe(given);
    await lose();
    const elsewhere = { present: parseAddress('10.9.0.1') };
    expect(await keep(ipam, 'n1', pool, elsewhere)).toMatch(/^10\.0\.0\./);
  });
});
