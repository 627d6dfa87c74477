import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bitsOf, type Address, type Family, parseAddress } from '../net/address.ts';
import type { WorkloadEndpoint } from './workload-endpoint.ts';
import { type AttachmentRecord, decodeAttachmentRecord, encodeAttachmentRecord } from './attachment-record.ts';

const RECORD: AttachmentRecord = {
  attachment: { network: 'my net/ü', containerId: 'c1', ifName: 'eth0' },
  pod: 'shop/web',
  at: '2026-01-01T00:00:00.000Z',
  addressManager: 'netplug-ipam',
  addresses: ['10.0.0.1', 'fd00::1'].map(parseAddress),
  floating: [{ external: parseAddress('192.0.2.1'), internal: parseAddress('10.0.0.1') }],
  switches: ['floating_ips'],
};
const PLAIN = JSON.parse(encodeAttachmentRecord(RECORD)) as Record<string, unknown>;

const ENDPOINT: WorkloadEndpoint = {
  apiVersion: 'netplug.io/v3',
  kind: 'WorkloadEndpoint',
  metadata: { name: 'n', namespace: 'shop', labels: { app: 'web' } },
  spec: {
    orchestrator: 'orch',
    node: 'a',
    network: RECORD.attachment.network,
    containerID: RECORD.attachment.containerId,
    endpoint: RECORD.attachment.ifName,
    interfaceName: 'npl1',
    mac: '',
    ipNetworks: ['10.0.0.1/32'],
    profiles: ['kns.shop'],
    ports: [{ name: 'web', protocol: 'TCP', port: 80 }],
    ipam: 'netplug-ipam',
  },
};

const addressOf = (family: Family): fc.Arbitrary<Address> =>
  fc.bigInt({ min: 0n, max: 2n ** BigInt(bitsOf(family)) - 1n }).map((value) => ({ family, value }));
const pairs = fc
  .constantFrom<Family>(4, 6)
  .chain((family) => fc.record({ external: addressOf(family), internal: addressOf(family) }));
const records = fc
  .record({
    attachment: fc.record({
      network: fc.string({ minLength: 1 }),
      containerId: fc.stringMatching(/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/),
      ifName: fc.stringMatching(/^[a-z][a-z0-9.]{0,14}$/),
    }),
    pod: fc.option(fc.string(), { nil: undefined }),
    at: fc.constant('2026-01-01T00:00:00.000Z'),
    addressManager: fc.constantFrom('netplug-ipam', 'none', 'host-local'),
    more: fc.array(fc.constantFrom<Family>(4, 6).chain(addressOf), { minLength: 1 }),
    floating: fc.array(pairs),
    switches: fc.constant(['floating_ips', 'ip_addrs_no_ipam'] as const),
  })
  .map(({ more, ...rest }): AttachmentRecord => ({
    ...rest,
    addresses: [...more, ...rest.floating.map(({ internal }) => internal)],
  }));

describe('the record of an attachment', () => {
  it('decodes to the record that was encoded', () => {
    fc.assert(
      fc.property(records, (record) => {
        expect(decodeAttachmentRecord(encodeAttachmentRecord(record))).toEqual(record);
      }),
    );
  });

  it('contains the endpoint of an attachment for which the datastore has none', () => {
    const record = { ...RECORD, endpoint: ENDPOINT };
    expect(decodeAttachmentRecord(encodeAttachmentRecord(record))).toEqual(record);
  });

  it.each([
    ['no JSON', '{'],
    ['another format', { ...PLAIN, format: 2 }],
    ['no container', { ...PLAIN, containerID: '' }],
    ['an address with a leading zero', { ...PLAIN, addresses: ['010.0.0.1'] }],
    ['no address', { ...PLAIN, addresses: [] }],
    [
      'a floating IP to a foreign address',
      { ...PLAIN, floatingIPs: [{ external: '192.0.2.1', internal: '10.9.9.9' }] },
    ],
    ['a floating IP of the other family', { ...PLAIN, floatingIPs: [{ external: '192.0.2.1', internal: 'fd00::1' }] }],
    ['a floating IP granted with the switch off', { ...PLAIN, switches: ['ip_addrs_no_ipam'] }],
    ['unmanaged addresses granted with the switch off', { ...PLAIN, addressManager: 'none' }],
    ['an endpoint without addresses', { ...PLAIN, endpoint: { ...ENDPOINT, spec: {} } }],
    [
      'the endpoint of another attachment',
      { ...PLAIN, endpoint: { ...ENDPOINT, spec: { ...ENDPOINT.spec, containerID: 'c2' } } },
    ],
    ['a switch that does not exist', { ...PLAIN, switches: ['floating_ips', 'all'] }],
  ])('is refused with %s', (_, raw) => {
    const text = typeof raw === 'string' ? raw : JSON.stringify(raw);
    expect(decodeAttachmentRecord(text)).toEqual({ problem: expect.any(String) as string });
  });

  it('never throws for arbitrary JSON, and grants only floating IPs of own addresses with the feature switched on', () => {
    const changes = fc.dictionary(fc.constantFrom(...Object.keys(PLAIN)), fc.jsonValue());
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          changes.map((changed) => JSON.stringify({ ...PLAIN, ...changed })),
        ),
        (text) => {
          const read = decodeAttachmentRecord(text);
          if ('problem' in read) return;
          expect(read.floating.length === 0 || read.switches.includes('floating_ips')).toBe(true);
          for (const { internal } of read.floating) expect(read.addresses).toContainEqual(internal);
        },
      ),
    );
  });
});
