import { expect, it } from 'vitest';
import { interfaceMtu } from './datagrams.ts';

const ROUTE = 'eth0\t00000000\t0101FEA9\t0003\t0\t0\t0\t00000000\t0\t0\t0';
const MTU = '/sys/class/net/eth0/mtu';

it.each([
  [
    'of the interface of the default route',
    1200,
    { '/proc/net/route': `Iface\tDestination\n${ROUTE}\n`, [MTU]: '1200\n' },
  ],
  ['that carries IPv6 where the interface tells none', 1280, { '/proc/net/route': `${ROUTE}\n` }],
  ['that carries IPv6 without a default route', 1280, { [MTU]: '1200\n' }],
])('fills a packet of the MTU %s', async (_, mtu, files: Readonly<Record<string, string>>) => {
  const read = async (path: string): Promise<string> => Promise.resolve(files[path] ?? '');
  expect(await interfaceMtu({ host: '10.65.0.2', port: 8080 }, read)).toBe(mtu);
});
