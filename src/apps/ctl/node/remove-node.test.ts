import { beforeEach, describe, expect, it } from 'vitest';
import { callCtl, type Ran } from '../../../../test/support/ctl.ts';
import { nodeOf, poolOf } from '../../../../test/support/fixtures.ts';
import { IpamBench } from '../../../../test/support/ipam-bench.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import type { NodeName } from '../../../model/names.ts';
import type { BgpPeer } from '../../../model/bgp-peer.ts';

const peerOf = (name: string, node?: string): BgpPeer => ({
  apiVersion: 'netplug.io/v3',
  kind: 'BGPPeer',
  metadata: { name },
  spec: {
    peerIP: '192.0.2.9',
    asNumber: 64512,
    keepOriginalNextHop: false,
    sourceAddress: 'UseNodeIP',
    ...(node === undefined ? {} : { node }),
  },
});

let ipam: IpamBench;
beforeEach(async () => {
  ipam = await IpamBench.with(
    poolOf('blue', '10.0.0.0/29', { blockSize: 30 }),
    nodeOf('n1'),
    nodeOf('n2'),
    peerOf('of-n1', 'n1'),
    peerOf('of-n2', 'n2'),
    peerOf('of-all'),
  );
  for (const name of ['n1', 'n2'] as NodeName[])
    await ipam.ports().store.publishReport(name, { problems: [] }, ipam.signal);
  for (const container of ['a', 'b', 'c', 'd', 'e']) await ipam.assign(container);
  await ipam.assign('z', { node: 'n2' });
});

async function run(argv: string, datastore: 'kvv3' | 'orch' = 'kvv3'): Promise<Ran> {
  return callCtl(argv.split(' '), {
    env: datastore === 'kvv3' ? { KV_ENDPOINTS: 'http://127.0.0.1:2379' } : { ORCHCONFIG: '/admin' },
    openStore: () => openMemoryStore(ipam.database),
  });
}
const namesOf = async (kind: 'Node' | 'BGPPeer' | 'NodeReport'): Promise<string[]> =>
  (await ipam.ports().store.listResources(kind, ipam.signal)).resources.map(({ metadata }) => metadata.name);

describe('netplugctl node remove', () => {
  it('removes the node with everything it holds, and prints a summary', async () => {
    expect(await run('node remove n1')).toEqual({
      status: 0,
      out: 'released 5 addresses, released 1 block, left 1 block to other nodes that hold addresses there, deleted 1 BGPPeer, removed node n1\n',
      err: '',
    });
    expect(await namesOf('Node')).toEqual(['n2']);
    expect(await namesOf('NodeReport')).toEqual(['n2']);
    expect(await namesOf('BGPPeer')).toEqual(['of-all', 'of-n2']);
  });

  it('has nothing to do the second time', async () => {
    await run('node remove n1');
    const before = ipam.database.state();
    expect(await run('node remove n1')).toEqual({ status: 0, out: 'node n1 has no records\n', err: '' });
    expect(ipam.database.state()).toBe(before);
  });

  it('changes nothing with --dry-run', async () => {
    const before = ipam.database.state();
    const { out } = await run('node remove n1 --dry-run');
    expect(out).toMatch(/^dry run: released 5 addresses, .*, removed node n1\n$/);
    expect(ipam.database.state()).toBe(before);
  });

  it('refuses while the orchestrator still has the node, and never deletes it there', async () => {
    const refused = await run('node remove n1', 'orch');
    expect(refused.status).toBe(69);
    expect(refused.err).toContain('hint: Run "kubectl delete node n1" first');
    expect((await run('node remove n1 --dry-run', 'orch')).status).toBe(69);
    const forced = await run('node remove n1 --force', 'orch');
    expect(forced).toMatchObject({ status: 0, out: expect.stringContaining('released 5 addresses') });
    expect(await namesOf('Node')).toEqual(['n1', 'n2']);
    expect(await namesOf('BGPPeer')).toHaveLength(3);
  });

  it('needs no --force once the orchestrator has deleted the node', async () => {
    ipam.database.putResource({ kind: 'Node', name: 'n1' }, undefined);
    expect(await run('node remove n1', 'orch')).toMatchObject({ status: 0, err: '' });
  });

  it('warns of records that it cannot read', async () => {
    const [block] = (await ipam.ports().store.listBlocks(ipam.signal)).blocks;
    ipam.database.damage({ block: block!.value.cidr });
    expect((await run('node remove n1')).err).toMatch(/^warning: .*10\.0\.0\.\d\/30/);
  });

  it.each(['node', 'node remove', 'node remove a b', 'node status a'])('refuses %j', async (argv) => {
    expect((await run(argv)).status).toBe(64);
  });
});
