import { takeSlot } from '../../../../test/support/block-edits.ts';
import { describe, expect, it } from 'vitest';
import { callCtl, type Ran } from '../../../../test/support/ctl.ts';
import { nodeName, nodeOf, poolOf } from '../../../../test/support/fixtures.ts';
import { IpamBench } from '../../../../test/support/ipam-bench.ts';
import { virtualClock } from '../../../base/clock.ts';
import { MemoryKernel } from '../../../../test/support/memory/memory-kernel.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import type { Store } from '../../../datastore/store.ts';
import { ensureTunnelAddress } from '../../../ipam/tunnel-address.ts';
import { type Allocation, emptyBlock } from '../../../model/ip-block.ts';
import { handleOf } from '../../../model/names.ts';
import type { Node, NodeSpec } from '../../../model/node.ts';
import { tunnelAttachment } from '../../../model/tunnel-attachment.ts';
import { parseCidr } from '../../../net/cidr.ts';
import { checkIpam } from './check-ipam.ts';
import type { IpamState } from './finding.ts';

const NONE = { networks: [], leaked: [], reserved: new Set<string>() };

const NOW = Date.parse('2026-01-02T00:00:00Z');
const DAY_AGO = '2026-01-01T00:00:00Z';

const held = (device: string, at = DAY_AGO): Allocation => {
  const attachment = tunnelAttachment(nodeName('n1'), device);
  return { id: device, handle: handleOf(attachment), node: nodeName('n1'), ...attachment, at, chosenBy: 'netconf' };
};
const node = (spec: NodeSpec): Node => ({ ...nodeOf('n1'), spec });
/** Returns the findings of a check when the first address of a block belongs to a tunnel device. */
const messages = (nodes: readonly Node[] | undefined, allocation = held('vxlan.netplug'), cidr = '10.0.0.0/26') => {
  const block = takeSlot(emptyBlock(parseCidr(cidr), nodeName('n1')), 0, allocation);
  const pools = [poolOf('v4', '10.0.0.0/16'), poolOf('v6', 'fd00::/64')];
  const common = { endpoints: [], unreadable: [], nowMs: NOW, graceMs: 120_000 };
  const none = { links: [], attached: new Set<string>(), used: new Set<string>(), unconnected: [], running: [] };
  const local = { nodes: new Set(['n1']), ...none, delegated: NONE };
  const state: IpamState = { ...common, blocks: [block], pools, nodes, local };
  return checkIpam(state).map(({ id, found, repair }) => `${id}: ${found} (${repair?.kind ?? 'no repair'})`);
};

describe('a check of tunnel addresses', () => {
  it.each([
    ['vxlan.netplug', '10.0.0.0/26', { ipv4VXLANTunnelAddr: '10.0.0.0' }],
    ['ipip.netplug', '10.0.0.0/26', { ipv4IPIPTunnelAddr: '10.0.0.0', ipv4VXLANTunnelAddr: '10.0.0.1' }],
    ['vxlan6.netplug', 'fd00::/122', { ipv6VXLANTunnelAddr: 'FD00:0::' }],
  ])('is content with that of %s which the node has', (device, cidr, spec) => {
    expect(messages([node(spec)], held(device), cidr)).toEqual([]);
  });

  it('finds one whose node is gone, has none, or has another', () => {
    const who = 'ipam/leaked-address: address 10.0.0.0 of tunnel device "vxlan.netplug" on node n1';
    expect(messages([nodeOf('n2')])).toEqual([`${who}: there is no such node (release)`]);
    expect(messages([node({})])).toEqual([`${who}: the node has no tunnel address (release)`]);
    const other = node({ ipv4VXLANTunnelAddr: '10.0.0.9', ipv6VXLANTunnelAddr: 'fd00::9' });
    expect(messages([other])).toEqual([`${who}: the node has 10.0.0.9 and fd00::9 instead (release)`]);
  });

  it('passes over one so young that its agent may be about to tell', () => {
    expect(messages([node({})], held('vxlan.netplug', '2026-01-01T23:59:00Z'))).toEqual([]);
  });

  it('judges none while a node cannot be read', () => {
    expect(messages(undefined)).toEqual([]);
  });
});

describe('the address of a tunnel device', () => {
  const env = { KV_ENDPOINTS: 'http://127.0.0.1:2379' };
  const benchWithTunnel = async (): Promise<{ ipam: IpamBench; run: (argv: string) => Promise<Ran> }> => {
    const blue = poolOf('blue', '10.0.0.0/26');
    const ipam = await IpamBench.with(blue);
    const wanted = { node: nodeName('n1'), device: 'vxlan.netplug', family: 4, pools: [blue] } as const;
    const ports = { ...ipam.ports(), clock: virtualClock(Date.parse(DAY_AGO)) };
    await ensureTunnelAddress(ports, wanted, { signal: ipam.signal, cleanupSignal: ipam.signal });
    const openStore = (): Store => openMemoryStore(ipam.database);
    const openKernel = (): MemoryKernel => new MemoryKernel();
    return { ipam, run: async (argv) => callCtl(argv.split(' '), { env, openStore, openKernel }) };
  };

  it('is shown as such', async () => {
    const { run } = await benchWithTunnel();
    const { out } = await run('ipam show --ip 10.0.0.0');
    expect(out).toContain('10.0.0.0 is held\n  tunnel:      vxlan.netplug\n  node:        n1\n');
    expect(out).not.toContain('container:');
  });

  it('is freed once no node has it, and everything of that can be read', async () => {
    const { ipam, run } = await benchWithTunnel();
    ipam.database.putResource({ kind: 'Node', name: 'n1' }, node({ ipv4VXLANTunnelAddr: '10.0.0.0' }));
    expect(await run('ipam check')).toMatchObject({ status: 0 });
    ipam.database.damage({ kind: 'Node', name: 'n1' });
    expect(await run('ipam check --fix')).toMatchObject({ status: 1, out: expect.not.stringContaining('tunnel') });
    ipam.database.putResource({ kind: 'Node', name: 'n1' }, undefined);
    expect(await run('ipam check')).toMatchObject({ status: 1, out: expect.stringContaining('there is no such node') });
    expect(await run('ipam check --fix')).toMatchObject({ status: 0 });
    expect((await run('ipam show --ip 10.0.0.0')).out).toContain('is free');
  });
});
