import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readPacketHeaders } from '../../src/dataplane/packet-headers.ts';
import { attribute, encodeMessage, textAttribute } from '../../src/dataplane/linux/netlink.ts';
import { reportReader } from '../../src/dataplane/linux/report-messages.ts';
import { fuzz, HANG_MS } from './driver.ts';
import { byteMutants } from './mutants.ts';

const PACKET = 4 << 8;
const octets = (length: number): fc.Arbitrary<Buffer> =>
  fc.uint8Array({ minLength: length, maxLength: length }).map((bytes) => Buffer.from(bytes));
const headed = (first: number, length: number): fc.Arbitrary<Buffer> =>
  octets(length).map((bytes) => Buffer.concat([Buffer.from([first]), bytes.subarray(1)]));
const extensions = fc.array(
  fc
    .tuple(fc.constantFrom(0, 43, 44, 51, 60, 135, 6), octets(7))
    .map(([next, rest]) => Buffer.concat([Buffer.from([next]), rest])),
  { maxLength: 16 },
);
const v6 = fc
  .tuple(headed(0x60, 40), fc.constantFrom(0, 6, 43, 44, 51, 58, 60), extensions)
  .map(([head, next, rest]) => {
    head.writeUInt8(next, 6);
    return Buffer.concat([head, ...rest]);
  });
const packet = fc.oneof(headed(0x45, 28), headed(0x4f, 128), v6);
const message = fc
  .tuple(packet, fc.nat({ max: 0xffffffff }), fc.string({ maxLength: 70 }))
  .map(([bytes, number, prefix]) => {
    const sequence = Buffer.alloc(4);
    sequence.writeUInt32BE(number);
    const parts = [attribute(9, bytes), textAttribute(10, prefix), attribute(12, sequence)];
    return encodeMessage({ type: PACKET, flags: 0, body: Buffer.concat([Buffer.alloc(4), ...parts]) }, 0);
  });

describe('reported packets', () => {
  it(
    'have addresses, and ports or a type in range, or nothing',
    () => {
      const count = fuzz(byteMutants(packet), 0.5, (bytes) => {
        const headers = readPacketHeaders(bytes);
        if (headers === undefined) return;
        const { source, destination, protocol, ports, icmp } = headers;
        expect(source.family).toBe(destination.family);
        for (const number of [protocol, icmp?.type ?? 0, icmp?.code ?? 0]) expect(number).toBeLessThan(256);
        for (const number of [ports?.source ?? 0, ports?.destination ?? 0]) expect(number).toBeLessThan(65_536);
        expect(ports !== undefined && icmp !== undefined).toBe(false);
      });
      expect(count).toBeGreaterThan(10);
    },
    HANG_MS,
  );

  it(
    'are delivered or counted as lost, whatever the messages contain',
    () => {
      const count = fuzz(fc.array(byteMutants(message), { maxLength: 4 }), 0.5, (messages) => {
        const read = reportReader();
        for (const bytes of messages)
          for (const report of read(Buffer.from(bytes)))
            expect(report.kind === 'packet' || (report.kind === 'lost' && report.packets > 0)).toBe(true);
      });
      expect(count).toBeGreaterThan(10);
    },
    HANG_MS,
  );
});
