import { describe, expect, it } from 'vitest';
import { virtualClock } from '../../../../base/clock.ts';
import { silentLog } from '../../../../base/log.ts';
import { memoryRecords } from '../../../../cni/attachment-records.ts';
import type { AttachmentRecord } from '../../../../model/attachment-record.ts';
import { formatAddress, parseAddress } from '../../../../net/address.ts';
import { AttachmentReader, listEndpoints } from './read-attachments.ts';

const never = new AbortController().signal;

function recordOf(containerId: string, more: Partial<AttachmentRecord> = {}): AttachmentRecord {
  const internal = parseAddress('10.0.0.1');
  return {
    attachment: { network: 'net', containerId, ifName: 'eth0' },
    pod: undefined,
    at: '2026-01-01T00:00:00.000Z',
    addressManager: 'netplug-ipam',
    addresses: [internal],
    floating: [{ external: parseAddress('192.0.2.1'), internal }],
    switches: ['floating_ips', 'ip_addrs_no_ipam'],
    ...more,
  };
}

function bench(): {
  readonly attachments: ReturnType<typeof memoryRecords>;
  readonly attached: Set<string>;
  readonly clock: ReturnType<typeof virtualClock>;
  readonly read: () => Promise<{ readonly floating: string[]; readonly announced: string[] }>;
  readonly due: () => number;
} {
  const attachments = memoryRecords();
  const attached = new Set<string>();
  const clock = virtualClock();
  let due = 0;
  const watched = { ...attachments, watch: () => ({ [Symbol.dispose]: () => undefined }) };
  const ports = { attachments: watched, listAttached: () => attached, clock, log: silentLog };
  const reader = new AttachmentReader(ports, () => (due += 1));
  return {
    attachments,
    attached,
    clock,
    due: () => due,
    read: async () => {
      const { floating, announced } = (await reader.read(never)).endpoints;
      const texts = floating.map(({ external, internal }) => `${formatAddress(external)} ${formatAddress(internal)}`);
      return { floating: texts, announced: announced.map(formatAddress) };
    },
  };
}

describe('records of attachments', () => {
  it('count for translation and announcements while their attachments have a link', async () => {
    const { attachments, attached, read } = bench();
    const unmanaged = { addressManager: 'none', addresses: [parseAddress('10.9.0.1')], floating: [] };
    await attachments.put(recordOf('a'));
    await attachments.put(recordOf('b', unmanaged));
    await attachments.put(recordOf('c', { addressManager: 'host-local', floating: [] }));
    expect(await read()).toEqual({ floating: [], announced: [] });
    for (const container of ['a', 'b', 'c']) attached.add(`${container}/eth0`);
    expect(await read()).toEqual({ floating: ['192.0.2.1 10.0.0.1'], announced: ['192.0.2.1', '10.9.0.1'] });
    attached.clear();
    expect(await read()).toEqual({ floating: [], announced: [] });
  });

  it('assign a floating IP that two attachments request to the older one', async () => {
    const { attachments, attached, read } = bench();
    const internal = parseAddress('10.0.0.2');
    const later = { at: '2026-01-02T00:00:00.000Z', addresses: [internal] };
    await attachments.put(recordOf('a', { ...later, floating: [{ external: parseAddress('192.0.2.1'), internal }] }));
    await attachments.put(recordOf('b'));
    for (const container of ['a', 'b']) attached.add(`${container}/eth0`);
    expect((await read()).floating[0]).toBe('192.0.2.1 10.0.0.1');
  });

  it('are read again soon, for a limited time, while a link is missing', async () => {
    const { attachments, clock, read, due } = bench();
    await attachments.put(recordOf('a'));
    await read();
    await clock.sleep(1000, never);
    expect(due()).toBe(1);
    await clock.sleep(40_000, never);
    await read();
    await clock.sleep(1000, never);
    expect(due()).toBe(1);
  });

  it('are removed after a while without a link, except those of another address manager', async () => {
    const { attachments, clock, read } = bench();
    await attachments.put(recordOf('a'));
    await attachments.put(recordOf('b', { addressManager: 'host-local' }));
    await read();
    await clock.sleep(599_000, never);
    await read();
    expect((await attachments.list()).records).toHaveLength(2);
    await clock.sleep(2000, never);
    await read();
    expect((await attachments.list()).records.map(({ attachment }) => attachment.containerId)).toEqual(['b']);
  });
});

it('lists endpoints, and says whether a record could not be read', async () => {
  const attachments = memoryRecords();
  await attachments.put(recordOf('a'));
  const unread = {
    ...attachments,
    watch: () => ({ [Symbol.dispose]: () => undefined }),
    list: async () => ({ ...(await attachments.list()), problems: ['EMFILE'] }),
  };
  const listAttached = (): Set<string> => new Set();
  expect(await listEndpoints({ attachments: unread, listAttached })).toEqual({ endpoints: [], isComplete: false });
  const read = { ...unread, list: async () => attachments.list() };
  expect(await listEndpoints({ attachments: read, listAttached })).toMatchObject({ isComplete: true });
});
