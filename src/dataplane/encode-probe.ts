/** Packets of probes as bytes. Pure. */
import { addressBytes } from '../net/address.ts';
import type { ProbePacket } from './packet-probe.ts';

const ICMP = { 4: { protocol: 1, echo: 8 }, 6: { protocol: 58, echo: 128 } } as const;
const PROTOCOLS = { TCP: 6, UDP: 17 } as const;
const TCP_HEADER_BYTES = 20;
const SYN = 0x02;
const WINDOW = 0xffff;
const HOP_LIMIT = 64;
const CHECKSUM_OFFSETS = { TCP: 16, UDP: 6, ICMP: 2 } as const;

export interface EncodedProbe {
  /** IANA number. */
  readonly protocol: number;
  /** Bytes after the IP header. */
  readonly payload: Buffer;
}

/** Encodes the packet; `sourcePort` is the identifier of an echo request. */
export function encodeProbe(packet: ProbePacket, sourcePort: number): EncodedProbe {
  const protocol = packet.protocol === 'ICMP' ? ICMP[packet.source.family].protocol : PROTOCOLS[packet.protocol];
  const payload = encodePayload(packet, sourcePort);
  const isPlain = packet.protocol === 'ICMP' && packet.source.family === 4;
  const sum = checksum(Buffer.concat([isPlain ? Buffer.alloc(0) : pseudoHeader(packet, protocol, payload), payload]));
  // UDP writes the sum 0, which means that there is none, as its equivalent.
  payload.writeUInt16BE(packet.protocol === 'UDP' && sum === 0 ? 0xffff : sum, CHECKSUM_OFFSETS[packet.protocol]);
  return { protocol, payload };
}

/** Adds the IP header. */
export function withHeader({ source, destination }: ProbePacket, { protocol, payload }: EncodedProbe): Buffer {
  const addresses = [addressBytes(source), addressBytes(destination)];
  if (source.family === 6) {
    const header = Buffer.from([0x60, 0, 0, 0, payload.length >> 8, payload.length & 0xff, protocol, HOP_LIMIT]);
    return Buffer.concat([header, ...addresses, payload]);
  }
  const length = 20 + payload.length;
  const start = Buffer.from([0x45, 0, length >> 8, length & 0xff, 0, 0, 0, 0, HOP_LIMIT, protocol, 0, 0]);
  const header = Buffer.concat([start, ...addresses]);
  header.writeUInt16BE(checksum(header), 10);
  return Buffer.concat([header, payload]);
}

function encodePayload({ protocol, port = 0, source }: ProbePacket, sourcePort: number): Buffer {
  if (protocol === 'ICMP') {
    const echo = Buffer.alloc(8);
    echo.writeUInt8(ICMP[source.family].echo, 0);
    echo.writeUInt16BE(sourcePort, 4);
    echo.writeUInt16BE(1, 6);
    return echo;
  }
  const header = Buffer.alloc(protocol === 'TCP' ? TCP_HEADER_BYTES : 8);
  header.writeUInt16BE(sourcePort, 0);
  header.writeUInt16BE(port, 2);
  if (protocol === 'UDP') header.writeUInt16BE(header.length, 4);
  else {
    header.writeUInt8((TCP_HEADER_BYTES / 4) << 4, 12);
    header.writeUInt8(SYN, 13);
    header.writeUInt16BE(WINDOW, 14);
  }
  return header;
}

function pseudoHeader({ source, destination }: ProbePacket, protocol: number, payload: Buffer): Buffer {
  const end = source.family === 4 ? Buffer.from([0, protocol, 0, 0]) : Buffer.from([0, 0, 0, 0, 0, 0, 0, protocol]);
  end.writeUInt16BE(payload.length, 2);
  return Buffer.concat([addressBytes(source), addressBytes(destination), end]);
}

/** The ones' complement of the sum of all 16-bit words. */
function checksum(bytes: Buffer): number {
  let sum = 0;
  for (let at = 0; at + 1 < bytes.length; at += 2) sum += bytes.readUInt16BE(at);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}
