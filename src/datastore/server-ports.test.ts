import { expect, it } from 'vitest';
import { formatAddress } from '../net/address.ts';
import { serverPorts } from './server-ports.ts';

it('finds the address and port of each origin, all addresses of a name, and none of an unknown name', async () => {
  const origins = ['https://10.96.0.1', 'http://etcd.test', 'https://[fd00::1]:7443', 'https://gone.test:2379'];
  const found = await serverPorts(origins, async (name) => {
    if (name !== 'etcd.test') throw new Error(`there is no ${name}`);
    return Promise.resolve(['192.0.2.1', '2001:db8::1']);
  });
  expect(found.map(({ address, protocol, port }) => [formatAddress(address), protocol, port])).toEqual([
    ['10.96.0.1', 6, 443],
    ['192.0.2.1', 6, 80],
    ['2001:db8::1', 6, 80],
    ['fd00::1', 6, 7443],
  ]);
});
