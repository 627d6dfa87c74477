import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import * as v from 'valibot';
import type { ErrorData } from '../../base/error-data.ts';
import { foreignRecord } from '../../base/foreign-record.ts';
import { tryParseJson } from '../../base/try-parse-json.ts';
import { FIRST_OWN_FRAME, readAs, readErrorData } from '../../stream/handshake.ts';
import { jsonFrame, protocolError, type StreamFrame, streamFrame } from '../../stream/stream-frames.ts';
import type { FollowTopic } from './topics.ts';

/** Formats of these frames and of the texts of records that this release speaks. */
export const FOLLOW_FORMATS = { oldest: 1, newest: 1 } as const;
export const FOLLOW_PROTOCOL = 'netplug-follow/1';

const TYPE = {
  begin: FIRST_OWN_FRAME,
  end: FIRST_OWN_FRAME + 1,
  ack: FIRST_OWN_FRAME + 2,
  part: FIRST_OWN_FRAME + 8,
  complete: FIRST_OWN_FRAME + 9,
  beat: FIRST_OWN_FRAME + 10,
  failed: FIRST_OWN_FRAME + 11,
} as const;
/** Longest payload of a client that has a node, and of a server: a part is a record or at most 256 kB. */
export const CLIENT_BYTES = 64 * 1024;
export const SERVER_BYTES = 16 * 1024 * 1024;
/** Longest text of a part, whatever its compressed bytes say. */
const TEXT_BYTES = 16 * 1024 * 1024;
/** Shorter ones are not worth the time. */
const COMPRESSED_FROM_BYTES = 1024;
const PLAIN = 0;
const ZSTD = 1;

const topic = v.pipe(v.string(), v.maxLength(100));
const position = v.pipe(v.number(), v.safeInteger(), v.minValue(0));

/** A change of a record: its text, or undefined when it was deleted. */
export interface RecordLine {
  readonly key: string;
  readonly text: string | undefined;
}

export interface FollowPart {
  readonly topic: FollowTopic;
  /** Whether it begins a snapshot, which is held until it is complete. */
  readonly isFirst: boolean;
  readonly position: number;
  /** The version of the last change at the source up to the position; undefined when the part does not say. */
  readonly changed: number | undefined;
  readonly lines: readonly RecordLine[];
}

/** Where a topic stands at a server. */
export interface TopicState {
  readonly position: number;
  readonly changed: number | undefined;
  /** The version of the source up to which nothing is missing at the position, of topics of stored objects. */
  readonly through: number | undefined;
  /** How long ago the source is known to have been current. */
  readonly ageMs: number;
}

/** What a client says. */
export type ClientMessage =
  /** `changed` is the version of the last change that the client has applied. */
  | { readonly kind: 'begin'; readonly topic: FollowTopic; readonly changed: number | undefined }
  | { readonly kind: 'end'; readonly topic: FollowTopic }
  /** Positions that the client has applied. */
  | { readonly kind: 'ack'; readonly positions: Readonly<Record<FollowTopic, number>> };

/** What a server says. */
export type ServerMessage =
  | ({ readonly kind: 'part' } & FollowPart)
  /** All records of the topic that existed when it was begun have been sent. */
  | { readonly kind: 'complete'; readonly topic: FollowTopic }
  | { readonly kind: 'beat'; readonly topics: Readonly<Record<FollowTopic, TopicState>> }
  /** The source of the topic has failed. The connection stays, and parts go on when it is back. */
  | { readonly kind: 'failed'; readonly topic: FollowTopic; readonly error: ErrorData };

const begin = v.object({ topic, changed: v.optional(position) });
const end = v.object({ topic });
const ack = v.object({ positions: foreignRecord(topic, position) });
const complete = v.object({ topic });
const state = v.object({
  position,
  changed: v.optional(position),
  through: v.optional(position),
  ageMs: v.pipe(v.number(), v.minValue(0)),
});
const beat = v.object({ topics: foreignRecord(topic, state) });
const failed = v.object({ topic, error: v.unknown() });
const partHead = v.object({ topic, isFirst: v.boolean(), position, changed: v.optional(position) });

/** Returns the frame of a message; `partFrame` returns that of a part. */
export function followFrame({ kind, ...message }: ClientMessage | Exclude<ServerMessage, { kind: 'part' }>): Buffer {
  return jsonFrame(TYPE[kind], message);
}

/** @throws stream/protocol for anything but a message of a client */
export function readClientFrame(frame: StreamFrame): ClientMessage {
  switch (frame.type) {
    case TYPE.begin: {
      const { topic: begun, changed } = readAs(frame, TYPE.begin, begin);
      return { kind: 'begin', topic: begun, changed };
    }
    case TYPE.end:
      return { kind: 'end', ...readAs(frame, TYPE.end, end) };
    case TYPE.ack:
      return { kind: 'ack', ...readAs(frame, TYPE.ack, ack) };
    default:
      throw protocolError(`no client sends frames of type ${String(frame.type)}`);
  }
}

export function partFrame({ lines, ...head }: FollowPart): Buffer {
  const texts = lines.map(({ key, text }) => {
    const name = JSON.stringify(key);
    return text === undefined ? name : `${name}\t${text}`;
  });
  const plain = Buffer.from([JSON.stringify(head), ...texts].join('\n'), 'utf8');
  const isCompressed = plain.length >= COMPRESSED_FROM_BYTES;
  const [how, bytes] = isCompressed ? [ZSTD, zstdCompressSync(plain)] : [PLAIN, plain];
  return streamFrame(TYPE.part, Buffer.concat([Buffer.of(how), bytes]));
}

/** @throws stream/protocol for anything but a message of a server */
export function readServerFrame(frame: StreamFrame): ServerMessage {
  switch (frame.type) {
    case TYPE.part:
      return { kind: 'part', ...readPart(frame) };
    case TYPE.complete:
      return { kind: 'complete', ...readAs(frame, TYPE.complete, complete) };
    case TYPE.beat: {
      const { topics } = readAs(frame, TYPE.beat, beat);
      const states = Object.entries(topics).map(
        ([name, { changed, through, ...rest }]) => [name, { ...rest, changed, through }] as const,
      );
      return { kind: 'beat', topics: Object.fromEntries(states) };
    }
    case TYPE.failed: {
      const { topic: of, error } = readAs(frame, TYPE.failed, failed);
      return { kind: 'failed', topic: of, error: readErrorData(error) };
    }
    default:
      throw protocolError(`no server sends frames of type ${String(frame.type)}`);
  }
}

function readPart({ payload }: StreamFrame): FollowPart {
  const [head = '', ...lines] = unpacked(payload).split('\n');
  const read = v.safeParse(partHead, tryParseJson(head));
  if (!read.success) throw protocolError('a part has no head');
  return { ...read.output, changed: read.output.changed, lines: lines.map(readLine) };
}

function readLine(line: string): RecordLine {
  const tab = line.indexOf('\t');
  const key = tryParseJson(tab === -1 ? line : line.slice(0, tab));
  if (typeof key !== 'string') throw protocolError('a record has no key');
  return { key, text: tab === -1 ? undefined : line.slice(tab + 1) };
}

function unpacked(payload: Buffer): string {
  const bytes = payload.subarray(1);
  if (payload[0] === PLAIN) return bytes.toString('utf8');
  if (payload[0] !== ZSTD) throw protocolError('a part is packed in an unknown way');
  try {
    return zstdDecompressSync(bytes, { maxOutputLength: TEXT_BYTES }).toString('utf8');
  } catch (cause) {
    throw protocolError('a part cannot be unpacked', cause);
  }
}
