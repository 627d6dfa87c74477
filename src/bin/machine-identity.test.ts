import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { type NetworkInterfaceInfo, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { isSameMachine } from '../ipam/node/name-claim.ts';
import { cardAddressesIn, isOwnSysfs, machineIdentityIn } from './machine-identity.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'npl-machine-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

const at = (state: string, run: string): ReturnType<typeof machineIdentityIn> => {
  // What proves the machine of this test proves it for every folder.
  const { hardware: _, ...identity } = machineIdentityIn({
    NETPLUG_STATE_DIR: join(folder, state),
    NETPLUG_RUN_DIR: join(folder, run),
  });
  return identity;
};

it('tells a machine by what lasts until its next boot, and not by what an image contains', async () => {
  const first = at('state', 'run');
  expect(at('state', 'run')).toEqual(first);
  expect(isSameMachine(at('state', 'another-run'), first)).toBe(true);
  expect(isSameMachine(at('new-state', 'run'), first)).toBe(true);
  await cp(join(folder, 'state'), join(folder, 'copy'), { recursive: true });
  const copy = at('copy', 'third-run');
  expect(copy.id).toBe(first.id);
  expect(isSameMachine(copy, first)).toBe(false);
});

it('takes the addresses of network cards that are the same after the next boot', async () => {
  for (const [name, device, assigned] of [
    ['eth0', 'pci0/0000:00:03.0', '0'],
    ['eth1', 'pci0/0000:00:04.0', '3'],
    ['eth1v0', 'pci0/0000:00:05.0/physfn', '0'],
    ['eth2', 'pci0/0000:00:06.0', '1'],
    ['usb0', 'pci0/0000:00:07.0/usb1', '0'],
    ['br0', undefined, '0'],
  ] as const) {
    await mkdir(join(folder, 'net', name), { recursive: true });
    await writeFile(join(folder, 'net', name, 'address'), `mac of ${name}\n`);
    await writeFile(join(folder, 'net', name, 'addr_assign_type'), assigned);
    if (device === undefined) continue;
    await mkdir(join(folder, device), { recursive: true });
    await symlink(join(folder, device.replace('/physfn', '')), join(folder, 'net', name, 'device'));
  }
  expect(cardAddressesIn(join(folder, 'net'))).toEqual(['mac of eth0', 'mac of eth1']);
});

const MAC = '52:54:00:00:00:01';
const SYSFS: Readonly<Record<string, string>> = {
  'br0/type': '1',
  'br0/address': MAC,
  'tun0/type': '65534',
  'tunl0/type': '768',
  'tunl0/address': '192.0.2.1',
};
const entry = (mac: string, internal = false): [NetworkInterfaceInfo] => [
  { address: '192.0.2.1', netmask: '255.255.255.0', family: 'IPv4', mac, internal, cidr: '192.0.2.1/24' },
];

it.each([
  [true, 'a bridge over the network card', { br0: entry(MAC) }],
  [true, 'a link and its label', { br0: entry(MAC), 'br0:1': entry(MAC) }],
  [true, 'tunnels beside', { br0: entry(MAC), tun0: entry('00:00:00:00:00:00'), tunl0: entry('c0:00:02:01:00:00') }],
  [false, 'another MAC address', { br0: entry('52:54:00:00:00:02') }],
  [false, 'a link that sysfs does not show', { br0: entry(MAC), eth0: entry(MAC) }],
  [false, 'tunnels alone', { tun0: entry('00:00:00:00:00:00') }],
  [false, 'loopback alone', { lo: entry('00:00:00:00:00:00', true) }],
])('says %s of sysfs as that of the own network namespace with %s', (isOwn, _, interfaces) => {
  expect(isOwnSysfs(interfaces, (link, file) => SYSFS[`${link}/${file}`])).toBe(isOwn);
});
