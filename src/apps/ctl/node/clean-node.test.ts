import { beforeEach, describe, expect, it } from 'vitest';
import { callCtl, type CtlWorld, type Ran } from '../../../../test/support/ctl.ts';
import type { HostRoute } from '../../../dataplane/host-network.ts';
import type { FilterTable } from '../../../dataplane/policy-filter.ts';
import { MemoryHostNetwork } from '../../../../test/support/memory/memory-host-network.ts';
import { type MemoryFilterTables, MemoryPolicyFilter } from '../../../../test/support/memory/memory-policy-filter.ts';
import { parseAddress } from '../../../net/address.ts';
import { parseCidr } from '../../../net/cidr.ts';
import { NAT_TABLE } from '../../../routing/nat-table.ts';

const never = new AbortController().signal;
const blackhole = (cidr: string): HostRoute => ({ destination: parseCidr(cidr), hop: { kind: 'blackhole' } });

const emptyTable = (name: string): FilterTable => ({ name, chains: new Map(), sets: new Map() });

let host: MemoryHostNetwork;
let tables: MemoryFilterTables;
beforeEach(async () => {
  host = new MemoryHostNetwork();
  tables = new Map([['of-somebody', emptyTable('of-somebody')]]);
  const routes = [blackhole('10.0.0.0/26'), blackhole('fd00::/122')];
  await host.change(
    routes.map((route) => ({ kind: 'put-route', route })),
    never,
  );
  const encapsulation = { kind: 'ipip', local: parseAddress('192.0.2.1') } as const;
  await host.putTunnel({ name: 'ipip.netplug', mtu: 1480, addresses: [], encapsulation });
  tables.set(NAT_TABLE, emptyTable(NAT_TABLE));
});

async function clean(more: CtlWorld = {}): Promise<Ran> {
  return callCtl(['node', 'clean'], {
    openHostNetwork: () => host,
    openFilter: () => new MemoryPolicyFilter(tables),
    ...more,
  });
}

describe('netplugctl node clean', () => {
  it('removes what the agent left and nothing else', async () => {
    expect(await clean()).toEqual({
      status: 0,
      out: `removed 2 routes, tunnel device ipip.netplug, nftables table inet ${NAT_TABLE}\n`,
      err: '',
    });
    expect([await host.listRoutes(), host.tunnels, [...tables.keys()]]).toEqual([[], [], ['of-somebody']]);
    expect(await clean()).toEqual({ status: 0, out: 'nothing to remove\n', err: '' });
  });

  it('names the routes that the kernel refuses to delete', async () => {
    host.refuseNext((change) => change.kind === 'delete-route' && change.route.destination.base.family === 6, 'busy');
    const { status, out, err } = await clean();
    expect({ status, err }).toEqual({ status: 1, err: 'warning: route "fd00::/122" was not removed: busy\n' });
    expect(out).toContain('removed 1 route, tunnel device');
  });

  it.each(['{"calls":[]}', '{"of":"another version"}'])('is refused while an agent answers %s', async (answer) => {
    const { status, err } = await clean({ askAgent: async () => Promise.resolve(answer) });
    expect(status).toBe(69);
    expect(err).toContain('hint: Stop netplug-agent first');
    expect(host.tunnels).toHaveLength(1);
  });
});
