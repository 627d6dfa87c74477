import { describe, expect, it } from 'vitest';
import type { AttachmentRecord } from '../model/attachment-record.ts';
import { formatAddress, parseAddress } from '../net/address.ts';
import type { HostLocalFile } from './host-local-files.ts';
import { findLeaked, type NetworkTraces } from './leaked-reservations.ts';

const NOW = Date.parse('2026-12-01T12:00:00Z');
const BOOT = Date.parse('2026-12-01T08:00:00Z');
const [YESTERDAY, TODAY, JUST_NOW] = [BOOT - 1, NOW - 120_000, NOW - 119_999];
const file = (containerId: string, atMs: number): HostLocalFile => ({
  address: parseAddress('10.0.0.2'),
  containerId,
  ifName: 'eth0',
  atMs,
});
const record = (containerId: string, atMs: number, more: Partial<AttachmentRecord> = {}): AttachmentRecord => ({
  attachment: { network: 'net', containerId, ifName: 'eth0' },
  pod: 'shop/web',
  at: new Date(atMs).toISOString(),
  addressManager: 'host-local',
  addresses: [parseAddress('10.0.0.2')],
  floating: [],
  switches: [],
  ...more,
});
const leaked = (given: Partial<NetworkTraces>): readonly string[] =>
  findLeaked(
    { name: 'net', manager: 'host-local' },
    { records: [], files: [], attached: new Set(), nowMs: NOW, bootedAtMs: BOOT, ...given },
  ).map(({ containerId, pod, addresses }) => `${containerId} ${pod ?? '-'} ${addresses.map(formatAddress).join()}`);

describe('a reservation of an attachment without an interface', () => {
  it.each([
    {
      of: 'this boot, recorded',
      files: [file('a', TODAY)],
      records: [record('a', TODAY)],
      is: ['a shop/web 10.0.0.2'],
    },
    { of: 'an ADD in progress', files: [file('a', JUST_NOW)], records: [record('a', JUST_NOW)], is: [] },
    { of: 'an ADD that is repeated', files: [file('a', JUST_NOW)], records: [record('a', TODAY)], is: [] },
    { of: 'this boot, of another main plugin perhaps', files: [file('a', TODAY)], records: [], is: [] },
    { of: 'an earlier boot', files: [file('a', YESTERDAY)], records: [], is: ['a - 10.0.0.2'] },
    { of: 'a file on a tmpfs', files: [], records: [record('a', YESTERDAY)], is: ['a shop/web 10.0.0.2'] },
    {
      of: 'another network',
      files: [],
      records: [record('a', TODAY, { attachment: { network: 'other', containerId: 'a', ifName: 'eth0' } })],
      is: [],
    },
    { of: 'another address manager', files: [], records: [record('a', TODAY, { addressManager: 'none' })], is: [] },
  ])('leaked or not: of $of', ({ files, records, is }) => {
    expect(leaked({ files, records })).toEqual(is);
  });

  it('is not leaked while the kernel has its interface, however old', () => {
    expect(leaked({ files: [file('a', YESTERDAY)], attached: new Set(['a/eth0']) })).toEqual([]);
    expect(leaked({ files: [file('a', YESTERDAY)], attached: new Set(['a/net1']) })).toHaveLength(1);
  });
});
