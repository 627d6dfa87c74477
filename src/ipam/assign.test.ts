import { describe, expect, it } from 'vitest';
import { ipamConfigurationOf, lockOf, nodeOf, poolOf, reservationOf } from '../../test/support/fixtures.ts';
import { type Ask, IpamBench, requestOf } from '../../test/support/ipam-bench.ts';
import { isNetplugError } from '../base/errors.ts';
import { assign, dryRunAssign } from './assign.ts';
import type { IpPool } from '../model/ip-pool.ts';
import { formatAddress } from '../net/address.ts';
import { addressAt, formatCidr } from '../net/cidr.ts';

const containers = (count: number): string[] => Array.from({ length: count }, (_, index) => `c${String(index)}`);

describe('assigning', () => {
  it('repeats the addresses an attachment holds already', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24'), poolOf('v6', 'fd00::/112'));
    const first = await ipam.addresses('c1', { families: '46' });
    expect(first).toHaveLength(2);
    expect(await ipam.addresses('c1', { families: '46' })).toEqual(first);
  });

  it('leaves a running attachment its address when its pool is disabled and another one is asked for [keep-addresses]', async () => {
    const ipam = await IpamBench.with(poolOf('old', '10.0.0.0/24'));
    const { store } = ipam.ports();
    const before = await ipam.addresses('c1');
    await store.updateResource(poolOf('old', '10.0.0.0/24', { disabled: true }), ipam.signal);
    await store.createResource(poolOf('new', '10.1.0.0/24'), ipam.signal);
    expect(await ipam.addresses('c1', { pools: ['new'] })).toEqual(before);
    expect((await ipam.assign('c2')).map(({ pool }) => pool)).toEqual(['new']);
  });

  it('is refused while the datastore is locked, as is releasing; what is held is repeated', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24'));
    const { store } = ipam.ports();
    const [address] = await ipam.addresses('c1');
    await store.createResource(lockOf('locked'), ipam.signal);
    const before = ipam.database.state();
    for (const refused of [
      ipam.assign('c2'),
      ipam.assign('c2', { ip: '10.0.0.9' }),
      ipam.assign('c2', { node: 'n2' }),
      dryRunAssign(ipam.ports(), requestOf('c2', {}), ipam.signal),
      ipam.release('c1'),
    ])
      await expect(refused).rejects.toMatchObject({ code: 'store/locked' });
    expect(await ipam.addresses('c1')).toEqual([address]);
    expect(await ipam.release('c2')).toBe(0);
    expect(ipam.database.state()).toBe(before);
    await store.updateResource(lockOf('unlocked'), ipam.signal);
    expect(await ipam.release('c1')).toBe(1);
    expect(await ipam.assign('c2')).toHaveLength(1);
  });

  it('fills the blocks of the node before it claims another', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24', { blockSize: 30 }));
    for (const container of containers(5)) await ipam.assign(container);
    expect(ipam.database.state().blocks.size).toBe(2);
  });

  it('lets a released address wait at the end of the queue', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/30', { blockSize: 30 }));
    const [first] = await ipam.addresses('c1');
    await ipam.release('c1');
    const later = await Promise.all(['c2', 'c3', 'c4', 'c5'].map(async (container) => ipam.addresses(container)));
    expect(later.flat().indexOf(first ?? '')).toBeGreaterThanOrEqual(0);
    expect((await ipam.addresses('c2'))[0]).not.toBe(first);
  });

  it('skips reserved addresses, but gives one that is asked for', async () => {
    const ipam = await IpamBench.with(
      poolOf('v4', '10.0.0.0/29', { blockSize: 29 }),
      reservationOf('r', ['10.0.0.0/30', '10.0.0.4/32']),
    );
    const given = [];
    for (const container of containers(3)) given.push(...(await ipam.addresses(container)));
    expect(given.sort()).toEqual(['10.0.0.5', '10.0.0.6', '10.0.0.7']);
    await expect(ipam.assign('c9')).rejects.toMatchObject({
      code: 'ipam/exhausted',
      message: expect.stringContaining('reserved'),
    });
    expect(await ipam.addresses('c10', { ip: '10.0.0.4' })).toEqual(['10.0.0.4']);
  });

  it('borrows from the block of another node when nothing else is left', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/30', { blockSize: 30 }));
    await ipam.assign('c1', { node: 'n1' });
    const [lease] = await ipam.assign('c2', { node: 'n2' });
    expect(lease?.allocation.node).toBe('n2');
    expect(ipam.database.state().blocks.size).toBe(1);
    expect(await ipam.release('c2', 'n2')).toBe(1);
  });

  it('gives containers of one id on two nodes an address each', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/30', { blockSize: 30 }));
    const [first] = await ipam.addresses('c1', { node: 'n1' });
    const [second] = await ipam.addresses('c1', { node: 'n2' });
    expect(second).not.toBe(first);
    expect([await ipam.addresses('c1', { node: 'n1' }), await ipam.addresses('c1', { node: 'n2' })]).toEqual([
      [first],
      [second],
    ]);
    expect(await ipam.release('c1', 'n2')).toBe(1);
    expect(await ipam.addresses('c1', { node: 'n1' })).toEqual([first]);
  });

  it('refuses names that do not fit into a slot, before it takes one', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24'));
    const refused = ipam.assign('c'.repeat(700));
    await expect(refused).rejects.toMatchObject({
      code: 'ipam/request-invalid',
      message: expect.stringMatching(/take \d+ bytes, at most 1408 fit \(.*containerId 700/),
    });
    expect(ipam.database.state().blocks.size).toBe(0);
  });

  it('borrows in both families at once', async () => {
    const ipam = await IpamBench.with(
      poolOf('v4', '10.0.0.0/30', { blockSize: 30 }),
      poolOf('v6', 'fd00::/126', { blockSize: 126 }),
    );
    await ipam.assign('c1', { node: 'n1', families: '46' });
    const limits = { signal: AbortSignal.timeout(2000), cleanupSignal: ipam.signal };
    const assigned = await assign(ipam.ports(), requestOf('c2', { node: 'n2', families: '46' }), limits);
    expect(assigned.map(({ block }) => formatCidr(block))).toEqual(['10.0.0.0/30', 'fd00::/126']);
  });

  it('does not borrow under strict affinity, and says so', async () => {
    const ipam = await IpamBench.with(
      poolOf('v4', '10.0.0.0/30', { blockSize: 30 }),
      ipamConfigurationOf({ strictAffinity: true }),
    );
    await ipam.assign('c1', { node: 'n1' });
    await expect(ipam.assign('c2', { node: 'n2' })).rejects.toMatchObject({
      code: 'ipam/exhausted',
      message: expect.stringContaining('strict affinity is on'),
    });
  });

  it('takes over a block of another node that has emptied, even under strict affinity', async () => {
    const ipam = await IpamBench.with(
      poolOf('v4', '10.0.0.0/30', { blockSize: 30 }),
      ipamConfigurationOf({ strictAffinity: true }),
    );
    await ipam.assign('c1', { node: 'n1' });
    await ipam.release('c1', 'n1');
    await ipam.assign('c2', { node: 'n2' });
    await expect(ipam.assign('c3', { node: 'n1' })).rejects.toMatchObject({ code: 'ipam/exhausted' });
  });

  it('keeps to the limit of blocks per node and then borrows', async () => {
    const ipam = await IpamBench.with(
      poolOf('v4', '10.0.0.0/28', { blockSize: 30 }),
      ipamConfigurationOf({ maxBlocksPerNode: 1 }),
    );
    await ipam.assign('x', { node: 'n2' });
    for (const container of containers(5)) await ipam.assign(container, { node: 'n1' });
    const owners = [...ipam.database.state().blocks.values()].map(({ value }) =>
      typeof value === 'symbol' ? value : value.node,
    );
    expect(owners.sort()).toEqual(['n1', 'n2']);
  });

  it('gives both families or none', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24'));
    await expect(ipam.assign('c1', { families: '46' })).rejects.toMatchObject({ code: 'ipam/exhausted' });
    expect(ipam.database.state().blocks.size).toBe(0);
  });
});

describe('pools', () => {
  it('are chosen by node selectors when none is requested [prec-selector] [pool-nodeselector]', async () => {
    const ipam = await IpamBench.with(
      poolOf('blue', '10.1.0.0/24', { nodeSelector: "zone == 'blue'" }),
      poolOf('green', '10.2.0.0/24', { nodeSelector: "zone == 'green'" }),
      nodeOf('n1', { zone: 'green' }),
    );
    expect((await ipam.assign('c1'))[0]?.pool).toBe('green');
  });

  it('asked for by name or CIDR win over node selectors [prec-netconf]', async () => {
    const ipam = await IpamBench.with(
      poolOf('blue', '10.1.0.0/24', { nodeSelector: "zone == 'blue'" }),
      poolOf('green', '10.2.0.0/24'),
    );
    expect((await ipam.assign('c1', { pools: ['blue'] }))[0]).toMatchObject({
      pool: 'blue',
      allocation: { chosenBy: 'netconf' },
    });
    expect((await ipam.assign('c2', { pools: ['10.1.0.0/24'] }))[0]?.pool).toBe('blue');
  });

  it('named by annotations give way to an address that is requested [ann-priority]', async () => {
    const ipam = await IpamBench.with(poolOf('blue', '10.1.0.0/24'), poolOf('green', '10.2.0.0/24'));
    const [assigned] = await ipam.assign('c1', { pools: ['blue'], ip: '10.2.0.9' });
    expect([assigned?.pool, assigned && formatAddress(assigned.address)]).toEqual(['green', '10.2.0.9']);
  });

  it('cause an error that lists the existing ones when they do not exist [ann-exists] [err-pool-missing]', async () => {
    const ipam = await IpamBench.with(poolOf('blue', '10.1.0.0/24'));
    await expect(ipam.assign('c1', { pools: ['bleu'] })).rejects.toMatchObject({
      code: 'ipam/pool-not-found',
      message: 'Cannot choose an IPv4 pool: no pool is named "bleu" (pools: "blue" 10.1.0.0/24)',
    });
  });

  it('cannot be asked for in part, and the error names the whole [ann-exists]', async () => {
    const ipam = await IpamBench.with(poolOf('blue', '10.1.0.0/24'));
    await expect(ipam.assign('c1', { pools: ['10.1.0.0/25'] })).rejects.toMatchObject({
      code: 'ipam/pool-not-found',
      hint: expect.stringContaining('only a part of pool "blue"'),
    });
  });

  it.each([
    ['disabled', poolOf('p', '10.1.0.0/24', { disabled: true }), 'it is disabled'],
    ['of the other family', poolOf('p', 'fd00::/64'), 'it is an IPv6 pool'],
    ['for tunnels only', poolOf('p', '10.1.0.0/24', { allowedUses: ['Tunnel'] }), 'its allowedUses are Tunnel'],
  ])('%s cannot be asked for', async (_, pool, reason) => {
    const ipam = await IpamBench.with(pool);
    await expect(ipam.assign('c1', { pools: ['p'] })).rejects.toMatchObject({
      code: 'ipam/pool-unusable',
      message: expect.stringContaining(reason),
    });
  });

  it('are named with their reasons when they gave nothing', async () => {
    const ipam = await IpamBench.with(
      poolOf('full', '10.1.0.0/32', { blockSize: 32 }),
      poolOf('off', '10.2.0.0/24', { disabled: true }),
      poolOf('other', '10.3.0.0/24', { nodeSelector: "zone == 'x'" }),
    );
    await ipam.assign('c1');
    await expect(ipam.assign('c2')).rejects.toMatchObject({
      message:
        'Cannot assign an IPv4 address on node "n1": pool "full" 10.1.0.0/32: 1 of 1 addresses held; pool "off" 10.2.0.0/24: disabled; pool "other" 10.3.0.0/24: does not select the node',
    });
  });
});

describe('pools that overlap', () => {
  const created = (pool: IpPool, creationTimestamp: string): IpPool => ({
    ...pool,
    metadata: { ...pool.metadata, creationTimestamp },
  });

  it('give addresses out of the older one only', async () => {
    const ipam = await IpamBench.with();
    for (const pool of [
      created(poolOf('aa-younger', '10.0.0.0/16', { blockSize: 24 }), '2026-01-02T00:00:01Z'),
      created(poolOf('zz-older', '10.0.0.0/24'), '2026-01-02T00:00:00Z'),
    ])
      ipam.database.putResource({ kind: 'IPPool', name: pool.metadata.name }, pool);
    const [lease] = await ipam.assign('c1');
    expect(lease?.pool).toBe('zz-older');
    await expect(ipam.assign('c2', { pools: ['aa-younger'] })).rejects.toMatchObject({
      code: 'ipam/pool-unusable',
      message: expect.stringContaining('it overlaps the older pool "zz-older"'),
    });
    await expect(ipam.assign('c3', { ip: '10.0.7.1' })).rejects.toMatchObject({
      code: 'ipam/address-not-in-pool',
      message: expect.stringContaining('overlaps the older pool'),
    });
    expect(await ipam.addresses('c4', { ip: '10.0.0.9' })).toEqual(['10.0.0.9']);
    await ipam.ports().store.deleteResource({ kind: 'IPPool', name: 'zz-older' }, ipam.signal);
    expect((await ipam.assign('c5', { node: 'n2' }))[0]?.pool).toBe('aa-younger');
  });
});

describe('a certain address', () => {
  it('is given when it is free, and refused with its holder named when not', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24'));
    expect(await ipam.addresses('c1', { ip: '10.0.0.77', pod: 'web' })).toEqual(['10.0.0.77']);
    await expect(ipam.assign('c2', { ip: '10.0.0.77' })).rejects.toMatchObject({
      code: 'ipam/address-taken',
      message: expect.stringContaining('held by pod "default/web" on node "n1"'),
    });
  });

  it('must lie in a pool that is not disabled [ann-in-pool]', async () => {
    const ipam = await IpamBench.with(poolOf('off', '10.0.0.0/24', { disabled: true }));
    await expect(ipam.assign('c1', { ip: '10.9.0.1' })).rejects.toMatchObject({ code: 'ipam/address-not-in-pool' });
    await expect(ipam.assign('c1', { ip: '10.0.0.1' })).rejects.toMatchObject({
      message: expect.stringContaining('pool "off", and it is disabled'),
    });
  });

  it('claims no block beyond the limit of the node, and borrows within it', async () => {
    const ipam = await IpamBench.with(
      poolOf('v4', '10.0.0.0/24', { blockSize: 28 }),
      ipamConfigurationOf({ maxBlocksPerNode: 1 }),
    );
    await ipam.assign('c1', { ip: '10.0.0.1' });
    await expect(ipam.assign('c2', { ip: '10.0.0.17' })).rejects.toMatchObject({
      code: 'ipam/exhausted',
      message:
        'Cannot assign 10.0.0.17: no node has claimed its block 10.0.0.16/28 yet, and node "n1" owns 1 block, its limit',
    });
    expect(ipam.database.state().blocks.size).toBe(1);
    expect(await ipam.addresses('c3', { ip: '10.0.0.17', node: 'n2' })).toEqual(['10.0.0.17']);
    expect(await ipam.addresses('c2', { ip: '10.0.0.18' })).toEqual(['10.0.0.18']);
  });

  it.each([true, false])(
    'costs the node no block of its limit for other pods, with strictAffinity %s',
    async (strictAffinity) => {
      const ipam = await IpamBench.with(
        poolOf('v4', '10.0.0.0/24'),
        ipamConfigurationOf({ strictAffinity, maxBlocksPerNode: 2 }),
      );
      for (const at of [0, 1]) await ipam.assign(`asked-${String(at)}`, { ip: `10.0.0.${String(64 * at + 1)}` });
      await expect(ipam.assign('asked-2', { ip: '10.0.0.129' })).rejects.toMatchObject({ code: 'ipam/exhausted' });
      const own = async (): Promise<number> =>
        (await ipam.ports().store.listBlocks(ipam.signal)).blocks.filter(({ value }) => value.node === 'n1').length;
      for (const container of containers(65)) await ipam.assign(container);
      expect(await own()).toBe(2);
    },
  );

  it('comes out of no new block that overlaps one of another size', async () => {
    const ipam = await IpamBench.with(poolOf('old', '10.0.0.0/24'));
    expect(await ipam.addresses('c1', { ip: '10.0.0.65', node: 'n1' })).toEqual(['10.0.0.65']);
    const { store } = ipam.ports();
    await store.deleteResource({ kind: 'IPPool', name: 'old' }, ipam.signal);
    await store.createResource(poolOf('new', '10.0.0.0/24', { blockSize: 24 }), ipam.signal);
    await expect(ipam.assign('c2', { ip: '10.0.0.65', node: 'n2' })).rejects.toMatchObject({
      code: 'ipam/address-taken',
    });
    expect(await ipam.addresses('c2', { ip: '10.0.0.66', node: 'n2' })).toEqual(['10.0.0.66']);
    await expect(ipam.assign('c3', { ip: '10.0.0.1', node: 'n2' })).rejects.toMatchObject({
      code: 'ipam/exhausted',
      message: 'Cannot assign 10.0.0.1: its block 10.0.0.0/24 would overlap block 10.0.0.64/26 of no node',
    });
    await ipam.assign('c4', { node: 'n3' });
    expect(ipam.database.state().blocks.size).toBe(1);
  });

  it.each([true, false])(
    'leaves the rest of its block to other nodes with strictAffinity %s',
    async (strictAffinity) => {
      const ipam = await IpamBench.with(
        poolOf('v4', '10.0.0.0/24'),
        poolOf('v6', 'fd00::/120'),
        ipamConfigurationOf({ strictAffinity }),
      );
      for (const at of [0, 1, 2, 3]) {
        await ipam.assign(`four-${String(at)}`, { ip: `10.0.0.${String(64 * at + 1)}`, node: 'n1' });
        await ipam.assign(`six-${String(at)}`, {
          ip: `fd00::${(64 * at + 1).toString(16)}`,
          node: 'n1',
          families: '6',
        });
      }
      const owners = async (): Promise<readonly (string | undefined)[]> =>
        (await ipam.ports().store.listBlocks(ipam.signal)).blocks.map(({ value }) => value.node);
      expect(await owners()).toEqual(Array.from({ length: 8 }, () => undefined));
      const [shop] = await ipam.assign('shop', { node: 'n2', families: '46' });
      expect(shop?.isNew).toBe(true);
      expect((await owners()).filter((owner) => owner === 'n2')).toHaveLength(2);
      // The holder of an explicit address keeps it in a block of another node, also when it is replaced.
      expect(await ipam.addresses('four-0', { ip: '10.0.0.1', node: 'n1' })).toEqual(['10.0.0.1']);
      for (const at of [0, 1, 2, 3]) await ipam.release(`four-${String(at)}`, 'n1');
      for (const at of [0, 1, 2, 3]) await ipam.release(`six-${String(at)}`, 'n1');
      expect(await owners()).toEqual(['n2', 'n2']);
    },
  );

  it('is refused under strict affinity when it is in a block of another node', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24'), ipamConfigurationOf({ strictAffinity: true }));
    const [held] = await ipam.assign('c1', { node: 'n2' });
    const neighbour = held === undefined ? '' : formatAddress(addressAt(held.block, 63));
    await expect(ipam.assign('c2', { node: 'n1', ip: neighbour })).rejects.toMatchObject({
      code: 'ipam/strict-affinity',
    });
    expect(await ipam.addresses('c3', { node: 'n2', ip: neighbour })).toEqual([neighbour]);
  });

  it('is given under strict affinity when its block has no owner, whatever node holds the others', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24'), ipamConfigurationOf({ strictAffinity: true }));
    expect(await ipam.addresses('c1', { node: 'n1', ip: '10.0.0.1' })).toEqual(['10.0.0.1']);
    expect(await ipam.addresses('c2', { node: 'n2', ip: '10.0.0.2' })).toEqual(['10.0.0.2']);
  });
});

describe('a lost or unknown answer', () => {
  it('causes a release when the commit happened, so that a failed call holds nothing', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24'));
    let failures = 1;
    ipam.faulty({
      fault: (operation) => (operation === 'commit' && failures-- > 0 ? { kind: 'unavailable-after' } : undefined),
    });
    await expect(ipam.assign('c1')).rejects.toMatchObject({ code: 'store/unavailable' });
    expect((await ipam.assign('c1'))[0]?.isNew).toBe(true);
  });

  it('leads to the same address on the next try when the commit could not be undone', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24'));
    let isDown = false;
    ipam.faulty({
      fault: (operation) => {
        if (isDown) return { kind: 'unavailable-before' };
        isDown = operation === 'commit';
        return isDown ? { kind: 'unavailable-after' } : undefined;
      },
    });
    await expect(ipam.assign('c1')).rejects.toMatchObject({ code: 'store/unavailable' });
    ipam.faulty({});
    expect((await ipam.assign('c1'))[0]?.isNew).toBe(false);
  });

  it('leads to another try after a race', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24'));
    let conflicts = 5;
    ipam.faulty({
      fault: (operation) => (operation === 'commit' && conflicts-- > 0 ? { kind: 'conflict' } : undefined),
    });
    expect(await ipam.assign('c1')).toHaveLength(1);
  });
});

describe('a pod that is replaced under its name', () => {
  it('gets its fixed address back at once on the same node, and the late release of the earlier one frees nothing', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24'));
    await ipam.assign('old', { ip: '10.0.0.9', pod: 'db-0' });
    expect(await ipam.addresses('new', { ip: '10.0.0.9', pod: 'db-0' })).toEqual(['10.0.0.9']);
    expect(await ipam.release('old')).toBe(0);
    expect(await ipam.release('new')).toBe(1);
  });

  it('gets an error that names the holder of the address on another node', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24'));
    await ipam.assign('old', { ip: '10.0.0.9', pod: 'db-0', node: 'n1' });
    await expect(ipam.assign('new', { ip: '10.0.0.9', pod: 'db-0', node: 'n2' })).rejects.toMatchObject({
      code: 'ipam/address-taken',
      message: expect.stringMatching(/held by pod "default\/db-0" on node "n1" since .*, an earlier pod of this name$/),
    });
  });

  it('gets an error that names the way out, where it is lost with the node of its holder', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24'));
    await ipam.assign('old', { ip: '10.0.0.9', pod: 'db-0', node: 'n1' });
    const hintFor = async (ask: Ask): Promise<string> => {
      const cause: unknown = await ipam.assign('new', { ip: '10.0.0.9', ...ask }).catch((error: unknown) => error);
      return isNetplugError(cause) ? (cause.hint ?? '') : '';
    };
    const command = 'run "netplugctl ipam release --ip 10.0.0.9 --force"';
    for (const pod of ['db-0', 'other']) {
      const hint = await hintFor({ pod, node: 'n2' });
      expect(hint).toContain('taint the node with node.kubernetes.io/out-of-service');
      expect(hint).toContain(`only when no container on node "n1" can use the address any more, ${command}`);
      expect(hint.includes('delete the pod')).toBe(pod === 'other');
    }
    // On the same node, the kernel knows.
    expect(await hintFor({ pod: 'other', node: 'n1' })).not.toContain(command);
  });
});
