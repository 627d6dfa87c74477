import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LinuxFlowTable } from '../../src/dataplane/linux/linux-flow-table.ts';
import type { FlowEnd, TrackedFlow } from '../../src/dataplane/flow-table.ts';
import { formatAddress, parseAddress } from '../../src/net/address.ts';
import { enterNetns, newNetns, type TestNetns } from '../support/netns.ts';

/** Loopback answers for all of them. */
const POD = ['10.9.0.1', 'fd00:9::1'];
const OTHER = ['10.9.0.2', 'fd00:9::2'];
const SERVICE = '10.9.9.9';
const TRACKING = `
  add table inet t
  add chain inet t out { type nat hook output priority -100; }
  add rule inet t out ip daddr ${SERVICE} dnat to ${POD[0]}
  add chain inet t in { type filter hook input priority 0; }
  add rule inet t in ct state new accept`;

let scope: AsyncDisposableStack;
let netns: TestNetns;

beforeEach(async () => {
  scope = new AsyncDisposableStack();
  netns = scope.use(await newNetns());
  for (const address of [...POD, ...OTHER])
    await netns.addAddress(`${address}/${address.includes(':') ? '128' : '32'}`, 'lo');
  await netns.exec('ip', 'route', 'add', SERVICE, 'dev', 'lo');
  await netns.exec('nft', TRACKING);
  const inside = enterNetns(netns);
  scope.defer(() => inside.leave());
});

afterEach(async () => scope.disposeAsync());

describe.each([
  ['by address', {}],
  ['one by one, as on an older kernel', { endsByAddress: false }],
])('ends flows %s', (_name, options) => {
  it('of one address, on either side and behind a service, and no others', async () => {
    using table = LinuxFlowTable.open(options);
    for (const at of [0, 1]) {
      await send(POD[at], OTHER[at]);
      await send(OTHER[at], POD[at]);
      await send(OTHER[at], OTHER[at]);
    }
    await send(OTHER[0], SERVICE);
    expect(ends(await table.list('all'))).toHaveLength(7);

    await table.endAll(POD.map(parseAddress));

    expect(ends(await table.list('all'))).toEqual(OTHER.map((address) => `${address} ${address}`));
  });

  it('of no address', async () => {
    using table = LinuxFlowTable.open(options);
    await send(POD[0], OTHER[0]);

    await table.endAll([]);

    expect(await table.list('all')).toHaveLength(1);
  });
});

it('lists the flows of the addresses over both families', async () => {
  using table = LinuxFlowTable.open();
  for (const at of [0, 1]) {
    await send(POD[at], OTHER[at]);
    await send(OTHER[at], OTHER[at]);
  }

  expect(ends(await table.list(POD.map(parseAddress)))).toEqual(POD.map((pod, at) => `${pod} ${String(OTHER[at])}`));
});

it.each([
  ['a few ends, which the kernel looks for', 1],
  ['many ends', 40],
])('finds the wanted flows with one of %s, over both families', async (_what, times) => {
  using table = LinuxFlowTable.open();
  for (const at of [0, 1]) {
    await send(POD[at], OTHER[at]);
    await send(OTHER[at], POD[at]);
    await send(OTHER[at], OTHER[at]);
  }
  await send(OTHER[0], SERVICE);
  const find = async (place: Omit<FlowEnd, 'address'>, isWanted: (flow: TrackedFlow) => boolean = () => true) => {
    const all = POD.flatMap((address) =>
      Array.from({ length: times }, () => ({ ...place, address: parseAddress(address) })),
    );
    return ends(await table.find(all, isWanted)).toSorted();
  };

  const [there, back] = [
    POD.map((pod, at) => `${pod} ${String(OTHER[at])}`),
    POD.map((pod, at) => `${String(OTHER[at])} ${pod}`),
  ];
  expect(await find({ direction: 'original', side: 'source' })).toEqual(there);
  expect(await find({ direction: 'reply', side: 'destination' })).toEqual(there);
  expect(await find({ direction: 'original', side: 'destination' })).toEqual(back);
  // Behind a service, too.
  expect(await find({ direction: 'reply', side: 'source' })).toEqual([...back, `${OTHER[0]} ${SERVICE}`].toSorted());
  expect(await find({ direction: 'original', side: 'source' }, ({ original }) => original.source.family === 6)).toEqual(
    there.slice(1),
  );
  expect(await table.find([], () => true)).toEqual([]);
});

async function send(from = '', to = ''): Promise<void> {
  await netns.exec('ping', '-n', '-c', '1', '-W', '3', '-I', from, to);
}

function ends(flows: readonly TrackedFlow[]): readonly string[] {
  return flows
    .map(({ original }) => [original.source, original.destination].map(formatAddress).join(' '))
    .toSorted((a, b) => Number(a.includes(':')) - Number(b.includes(':')));
}
