/** Messages about tracked flows: the subsystem of netfilter netlink for connection tracking. Pure. */
import { type Address, addressBytes, addressFromBytes, type Family } from '../../net/address.ts';
import type { FlowEnd, FlowTuple, TrackedFlow } from '../flow-table.ts';
import { hasNote } from './flow-note.ts';
import {
  attribute,
  type Attributes,
  decodeAttributes,
  type Message,
  nested,
  NLM_F_ACK,
  NLM_F_DUMP,
  u32Attribute,
} from './netlink.ts';

const CTNETLINK = 1 << 8;
const CT_GET = CTNETLINK | 1;
const CT_DELETE = CTNETLINK | 2;
const FAMILY_NUMBERS: Readonly<Record<Family, number>> = { 4: 2, 6: 10 };
const HEADER_BYTES = 4;

/** The kernel filters by addresses of this family. */
export type V4 = Address & { readonly family: 4 };

const CTA_TUPLE_ORIG = 1;
const CTA_TUPLE_REPLY = 2;
const TUPLES = { original: CTA_TUPLE_ORIG, reply: CTA_TUPLE_REPLY } as const;
const CTA_STATUS = 3;
const CTA_PROTOINFO = 4;
const CTA_PROTOINFO_TCP = 1;
const CTA_PROTOINFO_TCP_STATE = 1;
const ESTABLISHED = 3;
const CTA_ID = 12;
const CTA_ZONE = 18;
const CTA_LABELS = 22;
const CTA_FILTER = 25;
const CTA_TUPLE_IP = 1;
const CTA_TUPLE_PROTO = 2;
/** IPv4, then IPv6. */
const CTA_IP_SOURCE = [1, 3] as const;
const CTA_IP_DESTINATION = [2, 4] as const;
const SEEN_REPLY = 2;
const CTA_PROTO_NUM = 1;
const CTA_PROTO_SRC_PORT = 2;
const CTA_PROTO_DST_PORT = 3;
/** Bits of a filter. */
const FILTERED = { source: 1, destination: 2 } as const;
/** ICMP, then ICMPv6. */
const CTA_PROTO_TYPE = [5, 8] as const;
const CTA_PROTO_CODE = [6, 9] as const;

/** Lists the flows of one family or all, for which the kernel walks its table once. */
export function listFlows(family?: Family): Message {
  return { type: CT_GET, flags: NLM_F_DUMP, body: headerOf(family) };
}

/**
 * Lists the flows with the IPv4 address at that place. Older kernels list those of all addresses. For IPv6, Linux 6.18 lists
 * those of all other addresses instead.
 */
export function listFlowsAt({ direction, side, address }: FlowEnd & { readonly address: V4 }): Message {
  return { type: CT_GET, flags: NLM_F_DUMP, body: filterBody(TUPLES[direction], side, address) };
}

export function endFlow({ handle }: Pick<TrackedFlow, 'handle'>): Message {
  return { type: CT_DELETE, flags: NLM_F_ACK, body: Buffer.from(handle) };
}

/**
 * Returns messages that end every flow of which the IPv4 address is an end, one for each place of an address in an entry. Older
 * kernels refuse them with EINVAL. For IPv6, Linux 6.18 ends the flows of all other addresses instead.
 */
export function endFlowsOf(address: V4): readonly Message[] {
  return Object.values(TUPLES).flatMap((tuple) =>
    (['source', 'destination'] as const).map((side) => ({
      type: CT_DELETE,
      flags: NLM_F_ACK,
      body: filterBody(tuple, side, address),
    })),
  );
}

function headerOf(family?: Family): Buffer {
  return Buffer.from([family === undefined ? 0 : FAMILY_NUMBERS[family], 0, 0, 0]);
}

function filterBody(tuple: number, side: FlowEnd['side'], address: V4): Buffer {
  const type = side === 'source' ? CTA_IP_SOURCE[0] : CTA_IP_DESTINATION[0];
  return Buffer.concat([
    headerOf(address.family),
    nested(tuple, [nested(CTA_TUPLE_IP, [attribute(type, addressBytes(address))])]),
    // The filter names a tuple by the same number.
    nested(CTA_FILTER, [u32Attribute(tuple, FILTERED[side])]),
  ]);
}

/** Returns a function that decodes an entry of the list; undefined unless one of the addresses is an end of the flow. */
export function flowReader(addresses: readonly Address[] | 'all'): (body: Buffer) => TrackedFlow | undefined {
  const wanted = new Set((addresses === 'all' ? [] : addresses).map((address) => keyOf(addressBytes(address))));
  const isWanted = (parts: Attributes | undefined): boolean =>
    addresses === 'all' ||
    [...CTA_IP_SOURCE, ...CTA_IP_DESTINATION].some((type) => {
      const bytes = parts?.get(type);
      return bytes !== undefined && wanted.has(keyOf(bytes));
    });
  return (body) => {
    const all = decodeAttributes(body.subarray(HEADER_BYTES));
    const tuples = [CTA_TUPLE_ORIG, CTA_TUPLE_REPLY].map((type) => nestedIn(all, type));
    // Most entries of a busy host are of other addresses.
    if (!tuples.some((tuple) => isWanted(tuple && nestedIn(tuple, CTA_TUPLE_IP)))) return undefined;
    const [original, reply] = tuples.map((tuple) => tuple && tupleIn(tuple));
    if (original === undefined || reply === undefined) return undefined;
    const status = all.get(CTA_STATUS);
    const isReplied = status !== undefined && status.length >= 4 && (status.readUInt32BE() & SEEN_REPLY) !== 0;
    const unsettled = isUnsettled(all) ? ({ isUnsettled: true } as const) : {};
    const noted = hasNote(all.get(CTA_LABELS)) ? ({ isNoted: true } as const) : {};
    return { original, reply, isReplied, ...unsettled, ...noted, handle: handleOf(body) };
  };
}

/** Reports whether the entry is of TCP, in another state than that of an established connection. */
function isUnsettled(entry: Attributes): boolean {
  const info = nestedIn(entry, CTA_PROTOINFO);
  const state = info && nestedIn(info, CTA_PROTOINFO_TCP)?.get(CTA_PROTOINFO_TCP_STATE)?.[0];
  return state !== undefined && state !== ESTABLISHED;
}

/** Returns the body of the message that deletes exactly this entry. */
function handleOf(body: Buffer): Uint8Array {
  const kept: Buffer[] = [Buffer.from(body.subarray(0, HEADER_BYTES))];
  for (let at = HEADER_BYTES; at + 4 <= body.length;) {
    const length = body.readUInt16LE(at);
    if (length < 4) break;
    const padded = (length + 3) & ~3;
    const type = body.readUInt16LE(at + 2) & 0x3fff;
    if ([CTA_TUPLE_ORIG, CTA_ZONE, CTA_ID].includes(type)) kept.push(Buffer.from(body.subarray(at, at + padded)));
    at += padded;
  }
  return Buffer.concat(kept);
}

function tupleIn(tuple: Attributes): FlowTuple | undefined {
  const ends = nestedIn(tuple, CTA_TUPLE_IP);
  const proto = nestedIn(tuple, CTA_TUPLE_PROTO);
  const source = ends && firstOf(ends, CTA_IP_SOURCE);
  const destination = ends && firstOf(ends, CTA_IP_DESTINATION);
  if (source === undefined || destination === undefined || proto === undefined) return undefined;
  const type = firstOf(proto, CTA_PROTO_TYPE)?.[0];
  return {
    source: addressFromBytes(source),
    destination: addressFromBytes(destination),
    protocol: proto.get(CTA_PROTO_NUM)?.[0] ?? 0,
    sourcePort: portIn(proto.get(CTA_PROTO_SRC_PORT)),
    destinationPort: portIn(proto.get(CTA_PROTO_DST_PORT)),
    ...(type === undefined ? {} : { icmp: { type, code: firstOf(proto, CTA_PROTO_CODE)?.[0] ?? 0 } }),
  };
}

function nestedIn(attributes: Attributes, type: number): Attributes | undefined {
  const payload = attributes.get(type);
  return payload === undefined ? undefined : decodeAttributes(payload);
}

function firstOf(attributes: Attributes, types: readonly number[]): Buffer | undefined {
  return types.flatMap((type) => attributes.get(type) ?? [])[0];
}

function portIn(payload: Buffer | undefined): number {
  return payload === undefined || payload.length < 2 ? 0 : payload.readUInt16BE(0);
}

function keyOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}
