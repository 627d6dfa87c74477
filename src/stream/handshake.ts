import * as v from 'valibot';
import { type ErrorData, isErrorCode } from '../base/error-data.ts';
import { jsonFrame, payloadJson, protocolError, type StreamFrame, streamFrame } from './stream-frames.ts';

/** Types of frames of every connection. Those of its program begin at 16. */
export const STREAM_FRAME = { hello: 1, welcome: 2, refused: 3, leave: 4, servers: 5, alive: 6 } as const;
export const FIRST_OWN_FRAME = 16;

/** Longest payload of the first frame of a client, who is not yet known. */
export const HELLO_BYTES = 16 * 1024;

/** Formats that a program speaks. */
export interface Formats {
  readonly oldest: number;
  readonly newest: number;
}

const format = v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(1000));
const shortText = v.pipe(v.string(), v.maxLength(200));
const formats = v.object({ oldest: format, newest: format });

const hello = v.object({
  /** Proves the node of the client. */
  token: v.pipe(v.string(), v.maxLength(HELLO_BYTES)),
  release: shortText,
  formats,
  /** What the program of the client says of itself. */
  about: v.optional(v.unknown()),
});
export type Hello = v.InferOutput<typeof hello>;

const welcome = v.object({ server: shortText, release: shortText, format });
export type Welcome = v.InferOutput<typeof welcome>;

const MOST_SERVERS = 500;
const serverEntry = v.object({
  name: shortText,
  /** IP addresses, in the order in which they are tried. */
  addresses: v.pipe(v.array(shortText), v.maxLength(8)),
  port: v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(65_535)),
  /** PEM. */
  certificate: v.pipe(v.string(), v.maxLength(4096)),
  formats,
  /** Servers that are started together have the same; a server is replaced by those of another one. */
  generation: v.optional(shortText),
  isLeaving: v.boolean(),
});
/** Where a server is found, and by which certificate it is known. */
export type ServerEntry = v.InferOutput<typeof serverEntry>;
const serverList = v.pipe(v.array(serverEntry), v.maxLength(MOST_SERVERS), v.readonly());
const leave = v.object({ withinMs: v.pipe(v.number(), v.minValue(0), v.maxValue(3_600_000)) });

export const ALIVE: Buffer = streamFrame(STREAM_FRAME.alive, '');

/** A message as a frame. */
interface Message<T> {
  readonly frame: (value: T) => Buffer;
  /** @throws stream/protocol for another frame */
  readonly read: (frame: StreamFrame) => T;
}

export const HELLO_MESSAGE = message(STREAM_FRAME.hello, hello);
export const WELCOME_MESSAGE = message(STREAM_FRAME.welcome, welcome);
export const SERVERS_MESSAGE = message(STREAM_FRAME.servers, serverList);
/** Asks the client to be with another server by then. */
export const LEAVE_MESSAGE = message(STREAM_FRAME.leave, leave);

function message<S extends v.GenericSchema>(type: number, schema: S): Message<v.InferOutput<S>> {
  return { frame: (value) => jsonFrame(type, value), read: (frame) => readAs(frame, type, schema) };
}

/** Returns one server as a Lease describes it; undefined for anything else. */
export function readServerEntry(raw: unknown): ServerEntry | undefined {
  const read = v.safeParse(serverEntry, raw);
  return read.success ? read.output : undefined;
}

const fact = v.union([v.string(), v.number(), v.boolean(), v.array(v.string())]);
const errorShape = v.object({
  code: v.string(),
  message: v.string(),
  hint: v.optional(v.string()),
  facts: v.optional(v.unknown()),
});

/** Returns an error that the other end sent. One of a newer release, whose code is not known here, is `stream/refused`. */
export function readErrorData(raw: unknown): ErrorData {
  const read = v.safeParse(errorShape, raw);
  if (!read.success) throw protocolError('an error is not told as one');
  const { code, message, hint, facts } = read.output;
  const known = Object.entries(typeof facts === 'object' && facts !== null ? facts : {}).flatMap(([key, value]) =>
    v.is(fact, value) ? [[key, value] as const] : [],
  );
  return { code: isErrorCode(code) ? code : 'stream/refused', message, hint, facts: Object.fromEntries(known) };
}

/** Returns the newest format that both speak; undefined when there is none. */
export function commonFormat(one: Formats, other: Formats): number | undefined {
  const newest = Math.min(one.newest, other.newest);
  return newest >= Math.max(one.oldest, other.oldest) ? newest : undefined;
}

/** Returns what a frame of that type says. @throws stream/protocol for another type, and for anything else in it */
export function readAs<S extends v.GenericSchema>(frame: StreamFrame, type: number, schema: S): v.InferOutput<S> {
  if (frame.type !== type) throw protocolError(`a frame is of type ${String(frame.type)}, expected is ${String(type)}`);
  const read = v.safeParse(schema, payloadJson(frame));
  if (read.success) return read.output;
  const [issue] = read.issues;
  throw protocolError(`in a frame of type ${String(type)}, ${v.getDotPath(issue) ?? 'the value'} is not allowed`);
}
