import { type Address, addressFromBytes } from '../net/address.ts';

/** Facts in the first bytes of a packet. Its sender chose them. */
export interface PacketHeaders {
  readonly source: Address;
  readonly destination: Address;
  /** IANA number of the payload, after extension headers of IPv6. */
  readonly protocol: number;
  /** Undefined for protocols without ports, later fragments, and packets that are cut off before the ports. */
  readonly ports?: { readonly source: number; readonly destination: number };
  readonly icmp?: { readonly type: number; readonly code: number };
}

const TCP = 6;
const UDP = 17;
const SCTP = 132;
const UDP_LITE = 136;
const WITH_PORTS: ReadonlySet<number> = new Set([TCP, UDP, SCTP, UDP_LITE]);
const ICMP = 1;
const ICMP_V6 = 58;

const V4_HEADER_BYTES = 20;
const V6_HEADER_BYTES = 40;
/** Hop-by-hop options, routing, destination options, mobility: the length is in units of 8 bytes after the first. */
const V6_OPTIONS: ReadonlySet<number> = new Set([0, 43, 60, 135]);
const V6_FRAGMENT = 44;
const V6_FRAGMENT_BYTES = 8;
/** The length is in units of 4 bytes after the first two. */
const V6_AUTHENTICATION = 51;

/** Decodes the headers of an IPv4 or IPv6 packet, which may be cut off. Returns undefined when there are no addresses. */
export function readPacketHeaders(bytes: Uint8Array): PacketHeaders | undefined {
  const packet = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const version = (packet[0] ?? 0) >> 4;
  if (version === 4) return readV4(packet);
  return version === 6 ? readV6(packet) : undefined;
}

function readV4(packet: Buffer): PacketHeaders | undefined {
  if (packet.length < V4_HEADER_BYTES) return undefined;
  const headerBytes = 4 * (packet.readUInt8(0) & 0x0f);
  if (headerBytes < V4_HEADER_BYTES) return undefined;
  const isLaterFragment = (packet.readUInt16BE(6) & 0x1fff) !== 0;
  const payload = isLaterFragment ? Buffer.alloc(0) : packet.subarray(headerBytes);
  return {
    source: addressFromBytes(packet.subarray(12, 16)),
    destination: addressFromBytes(packet.subarray(16, 20)),
    ...readPayload(packet.readUInt8(9), payload),
  };
}

function readV6(packet: Buffer): PacketHeaders | undefined {
  if (packet.length < V6_HEADER_BYTES) return undefined;
  const { protocol, payload } = afterExtensions(packet.readUInt8(6), packet.subarray(V6_HEADER_BYTES));
  return {
    source: addressFromBytes(packet.subarray(8, 24)),
    destination: addressFromBytes(packet.subarray(24, 40)),
    ...readPayload(protocol, payload),
  };
}

/** Skips extension headers. Each has 8 bytes or more, so the packet bounds their number. */
function afterExtensions(first: number, bytes: Buffer): { readonly protocol: number; readonly payload: Buffer } {
  let protocol = first;
  let payload = bytes;
  for (;;) {
    const length = extensionBytes(protocol, payload);
    if (length === undefined || payload.length < V6_FRAGMENT_BYTES) return { protocol, payload };
    const isLaterFragment = protocol === V6_FRAGMENT && payload.readUInt16BE(2) >> 3 !== 0;
    protocol = payload.readUInt8(0);
    if (isLaterFragment) return { protocol, payload: Buffer.alloc(0) };
    payload = payload.subarray(length);
  }
}

/** Returns the length of an extension header; undefined for any other header. */
function extensionBytes(protocol: number, header: Buffer): number | undefined {
  const length = header[1] ?? 0;
  if (V6_OPTIONS.has(protocol)) return 8 * (length + 1);
  if (protocol === V6_AUTHENTICATION) return Math.max(8, 4 * (length + 2));
  return protocol === V6_FRAGMENT ? V6_FRAGMENT_BYTES : undefined;
}

function readPayload(protocol: number, payload: Buffer): Pick<PacketHeaders, 'protocol' | 'ports' | 'icmp'> {
  if (WITH_PORTS.has(protocol) && payload.length >= 4)
    return { protocol, ports: { source: payload.readUInt16BE(0), destination: payload.readUInt16BE(2) } };
  if ((protocol === ICMP || protocol === ICMP_V6) && payload.length >= 2)
    return { protocol, icmp: { type: payload.readUInt8(0), code: payload.readUInt8(1) } };
  return { protocol };
}
