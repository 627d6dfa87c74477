import { expect, it } from 'vitest';
import { parseAddress } from '../../../../net/address.ts';
import { readHost } from './read-host-links.ts';

it('takes all addresses of the links that are neither of pods nor tunnels of netplug', async () => {
  const addresses = ['192.0.2.1', 'fe80::1'];
  const names = ['eth0', 'npl0123456789a', 'vxlan.netplug', 'ipip.netplug'];
  const host = {
    listAddresses: async () => Promise.resolve(names.map((name) => ({ name, addresses: addresses.map(parseAddress) }))),
    findTunnels: async () => Promise.resolve([]),
  };
  expect((await readHost(host, [])).links.interfaces).toEqual([{ name: 'eth0', addresses }]);
});
