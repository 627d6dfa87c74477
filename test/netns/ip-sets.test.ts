// Sets of ipset, which other plugins leave on a node: the kernel lists their names.
import { expect, it } from 'vitest';
import { linuxPacketTables } from '../../src/dataplane/linux/linux-packet-tables.ts';
import {
  attribute,
  type Message,
  nested,
  NLM_F_ACK,
  NLM_F_CREATE,
  NLM_F_EXCL,
  textAttribute,
} from '../../src/dataplane/linux/netlink.ts';
import { NftSocket } from '../../src/dataplane/linux/nft-socket.ts';
import { loadAddon } from '../../src/dataplane/linux/addon.ts';
import { findLeftOvers } from '../../src/install/host/left-overs.ts';
import { enterNetns, newNetns } from '../support/netns.ts';

const { signal } = new AbortController();
const CREATE = (6 << 8) | 2;
const byte = (type: number, value: number): Buffer => attribute(type, Buffer.from([value]));

/** Creates a set of IPv4 addresses, as `ipset create NAME hash:ip` does. */
function createSet(name: string): Message {
  const parts = [
    byte(1, 6),
    textAttribute(2, name),
    textAttribute(3, 'hash:ip'),
    byte(4, 0),
    byte(5, 2),
    nested(7, []),
  ];
  const flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
  return { type: CREATE, flags, body: Buffer.concat([Buffer.from([2, 0, 0, 0]), ...parts]) };
}

it('lists the sets of ipset of its namespace, and finds those of another plugin', async () => {
  await using host = await newNetns();
  await using other = await newNetns();
  const read = async (): Promise<readonly string[]> => linuxPacketTables().listIpSets(signal);
  const within = async <T>(netns: typeof host, work: () => Promise<T>): Promise<T> => {
    const inside = enterNetns(netns);
    const working = work();
    inside.leave();
    return working;
  };
  expect(await within(host, read)).toEqual([]);
  const create = async (...names: readonly string[]): Promise<number> => {
    using socket = NftSocket.open(loadAddon());
    return await socket.requestEach('create sets', names.map(createSet));
  };
  await within(host, async () => create('kube-router-pod-subnets', 'f2b-sshd'));
  const sets = await within(host, read);
  expect([...sets].sort()).toEqual(['f2b-sshd', 'kube-router-pod-subnets']);
  expect(await within(other, read)).toEqual([]);
  const [found] = findLeftOvers({ devices: [], tables: [], sets, pins: [] });
  expect(found).toMatchObject({ plugin: 'kube-router', sets: ['kube-router-pod-subnets'] });
});
