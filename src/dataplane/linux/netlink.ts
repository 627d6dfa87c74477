/** The netlink protocol: messages with a header, and attributes that may nest. Pure. */

const NLM_F_REQUEST = 0x1;
export const NLM_F_ACK = 0x4;
/** Makes the kernel reply with the created object; for links since Linux 6.2. */
export const NLM_F_ECHO = 0x8;
const NLM_F_DUMP_INTR = 0x10;
export const NLM_F_EXCL = 0x200;
export const NLM_F_DUMP = 0x300;
export const NLM_F_CREATE = 0x400;
export const NLM_F_REPLACE = 0x100;

const NLMSG_ERROR = 2;
const NLMSG_DONE = 3;
const NLM_F_CAPPED = 0x100;
const NLM_F_ACK_TLVS = 0x200;
const NLMSGERR_ATTR_MSG = 1;
export const NLA_F_NESTED = 0x8000;
const NLA_TYPE_MASK = 0x3fff;
const HEADER_BYTES = 16;
const PORT_AT = 12;
const ATTRIBUTE_HEADER_BYTES = 4;

/** One request; `body` is the fixed header of its kind followed by attributes. */
export interface Message {
  readonly type: number;
  readonly flags: number;
  readonly body: Buffer;
}

/** The reply to one request. */
export interface Reply {
  /** Bodies of the answers, in the kernel's order. */
  readonly bodies: readonly Buffer[];
  /** 0, or the errno the kernel refused with. */
  readonly errno: number;
  /** The kernel's explanation of the refusal, if any. */
  readonly explanation: string | undefined;
  /** The table changed while it was listed, so the list may be incomplete. */
  readonly isInterrupted: boolean;
}

export type Attributes = ReadonlyMap<number, Buffer>;

export function encodeMessage({ type, flags, body }: Message, sequence: number): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt32LE(HEADER_BYTES + body.length, 0);
  header.writeUInt16LE(type, 4);
  header.writeUInt16LE(flags | NLM_F_REQUEST, 6);
  header.writeUInt32LE(sequence, 8);
  return Buffer.concat([header, body]);
}

/** A message of the kernel that is not a reply. */
export interface Note {
  readonly type: number;
  /** The port of the socket whose request caused it; 0 for none. */
  readonly port: number;
  readonly body: Buffer;
}

/** Decodes messages that are not replies; a truncated tail is ignored. */
export function decodeNotes(bytes: Buffer): Iterable<Note> {
  return messagesIn(bytes);
}

/** Returns the port of the socket that received the replies. */
export function portOf(replies: Buffer): number | undefined {
  return replies.length < HEADER_BYTES ? undefined : replies.readUInt32LE(PORT_AT);
}

/** Decodes the replies to `count` requests, numbered from `first`; other messages are skipped. */
export function decodeReplies(bytes: Buffer, first: number, count: number): readonly Reply[] {
  const replies = Array.from({ length: count }, emptyReply);
  for (const message of messagesIn(bytes)) {
    const reply = replies[message.sequence - first];
    if (reply !== undefined) addMessage(reply, message);
  }
  return replies;
}

interface ReceivedMessage extends Note {
  readonly flags: number;
  readonly sequence: number;
}

function* messagesIn(bytes: Buffer): Generator<ReceivedMessage> {
  for (let at = 0; at + HEADER_BYTES <= bytes.length;) {
    const length = bytes.readUInt32LE(at);
    if (length < HEADER_BYTES || at + length > bytes.length) break;
    yield {
      type: bytes.readUInt16LE(at + 4),
      flags: bytes.readUInt16LE(at + 6),
      sequence: bytes.readUInt32LE(at + 8),
      port: bytes.readUInt32LE(at + PORT_AT),
      body: bytes.subarray(at + HEADER_BYTES, at + length),
    };
    at += align(length);
  }
}

type ReplyDraft = { -readonly [K in keyof Reply]: Reply[K] } & { readonly bodies: Buffer[] };

function emptyReply(): ReplyDraft {
  return { bodies: [], errno: 0, explanation: undefined, isInterrupted: false };
}

function addMessage(reply: ReplyDraft, { type, flags, body }: ReceivedMessage): void {
  reply.isInterrupted ||= type !== NLMSG_ERROR && (flags & NLM_F_DUMP_INTR) !== 0;
  if (type === NLMSG_ERROR || type === NLMSG_DONE) {
    reply.errno = body.length >= 4 ? Math.abs(body.readInt32LE(0)) : 0;
    reply.explanation = type === NLMSG_ERROR ? explanationIn(body, flags) : undefined;
  } else {
    reply.bodies.push(body);
  }
}

/** Returns the explanation in an error, whose attributes follow the header of the request, or the whole request unless capped. */
function explanationIn(body: Buffer, flags: number): string | undefined {
  if ((flags & NLM_F_ACK_TLVS) === 0 || body.length < 4 + HEADER_BYTES) return undefined;
  const requestBytes = (flags & NLM_F_CAPPED) === 0 ? align(body.readUInt32LE(4)) : HEADER_BYTES;
  const text = decodeAttributes(body.subarray(4 + requestBytes)).get(NLMSGERR_ATTR_MSG);
  return text === undefined ? undefined : attributeText(text);
}

export function attribute(type: number, payload: Uint8Array): Buffer {
  const length = ATTRIBUTE_HEADER_BYTES + payload.length;
  // From the pool: large sets have hundreds of thousands.
  const bytes = Buffer.allocUnsafe(align(length)).fill(0, length);
  bytes.writeUInt16LE(length, 0);
  bytes.writeUInt16LE(type, 2);
  bytes.set(payload, ATTRIBUTE_HEADER_BYTES);
  return bytes;
}

export function nested(type: number, inner: readonly Uint8Array[]): Buffer {
  const [only] = inner;
  return attribute(type | NLA_F_NESTED, only !== undefined && inner.length === 1 ? only : Buffer.concat(inner));
}

export function u32Attribute(type: number, value: number): Buffer {
  const payload = Buffer.alloc(4);
  payload.writeUInt32LE(value, 0);
  return attribute(type, payload);
}

/** Encodes text with the terminating zero that the kernel expects. */
export function textAttribute(type: number, text: string): Buffer {
  return attribute(type, Buffer.from(`${text}\0`));
}

/** Decodes the last attribute of each type; a truncated tail is ignored. */
export function decodeAttributes(bytes: Buffer): Attributes {
  const found = new Map<number, Buffer>();
  for (let at = 0; at + ATTRIBUTE_HEADER_BYTES <= bytes.length;) {
    const length = bytes.readUInt16LE(at);
    if (length < ATTRIBUTE_HEADER_BYTES || at + length > bytes.length) break;
    const type = bytes.readUInt16LE(at + 2) & NLA_TYPE_MASK;
    found.set(type, bytes.subarray(at + ATTRIBUTE_HEADER_BYTES, at + length));
    at += align(length);
  }
  return found;
}

/** Returns the text of the type; empty without one. */
export function textOfAttribute(attributes: Attributes, type: number): string {
  const payload = attributes.get(type);
  return payload === undefined ? '' : attributeText(payload);
}

/** Decodes the attributes in the one of the type; none without one. */
export function attributesIn(attributes: Attributes, type: number): Attributes {
  return decodeAttributes(attributes.get(type) ?? Buffer.alloc(0));
}

export function attributeText(payload: Buffer): string {
  const end = payload.indexOf(0);
  return payload.toString('utf8', 0, end === -1 ? payload.length : end);
}

export function u32Of(payload: Buffer | undefined): number | undefined {
  return payload === undefined || payload.length < 4 ? undefined : payload.readUInt32LE(0);
}

function align(length: number): number {
  return (length + 3) & ~3;
}
