import { describe, expect, it } from 'vitest';
import { parseAddress } from '../net/address.ts';
import { encodeProbe, withHeader } from './encode-probe.ts';
import { readPacketHeaders } from './packet-headers.ts';
import type { ProbePacket } from './packet-probe.ts';

const ENDS = [
  { source: parseAddress('10.0.0.1'), destination: parseAddress('10.0.0.2') },
  { source: parseAddress('fd00::1'), destination: parseAddress('fd00::2') },
];

/** The sum over all words, which is 0xffff when the checksum among them is right. */
function sumOf(bytes: Buffer): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += bytes.readUInt16BE(at);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return sum;
}

describe('packets of probes', () => {
  it('are decoded as what they were made from', () => {
    for (const { source, destination } of ENDS)
      for (const protocol of ['TCP', 'UDP', 'ICMP'] as const) {
        const ports = protocol === 'ICMP' ? {} : { port: 443 };
        const packet: ProbePacket = { source, destination, protocol, ...ports, sender: { kind: 'host' } };
        const encoded = encodeProbe(packet, 50_000);
        const read = readPacketHeaders(withHeader(packet, encoded));
        const inside =
          protocol === 'ICMP'
            ? { icmp: { type: source.family === 4 ? 8 : 128, code: 0 } }
            : { ports: { source: 50_000, destination: 443 } };
        expect(read).toEqual({ source, destination, protocol: encoded.protocol, ...inside });
      }
  });

  it('have right checksums', () => {
    const [{ source, destination } = { source: parseAddress('::'), destination: parseAddress('::') }] = ENDS;
    for (let port = 1; port < 500; port += 1) {
      const packet: ProbePacket = { source, destination, protocol: 'UDP', port, sender: { kind: 'host' } };
      const encoded = encodeProbe(packet, 50_000);
      const whole = withHeader(packet, encoded);
      expect(sumOf(whole.subarray(0, 20))).toBe(0xffff);
      const pseudo = Buffer.from([0, 17, 0, encoded.payload.length]);
      expect(sumOf(Buffer.concat([whole.subarray(12, 20), pseudo, encoded.payload]))).toBe(0xffff);
    }
  });
});
