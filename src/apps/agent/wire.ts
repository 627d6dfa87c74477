import { NetplugError } from '../../base/errors.ts';

/** The kinds of requests to the agent. A message has the number of the kind, from 1. */
const KINDS = [
  'netplug',
  'netplug-ipam',
  'take-over',
  'show-calls',
  'show-network',
  'show-blocks',
  'shut-down',
  'show-flows',
] as const;
export type RequestKind = (typeof KINDS)[number];

export interface CallRequest {
  readonly kind: RequestKind;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

export interface CallAnswer {
  /** Exit status, 0 to 255. */
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The greeting of the agent, after which the caller sends its request. The protocol is also in native/shim.c. */
export const HELLO = Buffer.from('NPA1', 'latin1');
const HEAD_BYTES = 12;
const MIB = 1024 * 1024;
const REQUEST_LIMITS = { first: MIB, second: 4 * MIB };
const ANSWER_LIMITS = { first: 16 * MIB, second: 16 * MIB };

/** @throws agent/protocol when environment or stdin is too large */
export function encodeRequest({ kind, env, stdin }: CallRequest): Buffer {
  const entries = Object.entries(env).map(([key, value]) => `${key}=${value}\0`);
  return encode({ word: KINDS.indexOf(kind) + 1, first: entries.join(''), second: stdin }, REQUEST_LIMITS);
}

/** @throws agent/protocol when a text is too large */
export function encodeAnswer({ status, stdout, stderr }: CallAnswer): Buffer {
  return encode({ word: status, first: stdout, second: stderr }, ANSWER_LIMITS);
}

/** Decodes one message from chunks. Returns it once it is complete. */
export interface MessageReader<T> {
  /** @throws agent/protocol for an invalid message, and for bytes after the end of one */
  push(bytes: Uint8Array): T | undefined;
}

export function readRequest(): MessageReader<CallRequest> {
  return readMessage(REQUEST_LIMITS, ({ word, first, second }) => {
    const kind = KINDS[word - 1];
    if (kind === undefined) throw broken(`a request is of kind ${String(word)}, which is not known`);
    return { kind, env: decodeEnvironment(first), stdin: second.toString('utf8') };
  });
}

export function readCallAnswer(): MessageReader<CallAnswer> {
  return readMessage(ANSWER_LIMITS, ({ word, first, second }) => {
    if (word > 255) throw broken(`an answer has status ${String(word)}`);
    return { status: word, stdout: first.toString('utf8'), stderr: second.toString('utf8') };
  });
}

/** The common format of requests and answers: a number, two lengths, and two texts of those lengths. */
interface Message<Text> {
  readonly word: number;
  readonly first: Text;
  readonly second: Text;
}

interface Limits {
  readonly first: number;
  readonly second: number;
}

function encode({ word, first, second }: Message<string>, limits: Limits): Buffer {
  const texts = [Buffer.from(first, 'utf8'), Buffer.from(second, 'utf8')] as const;
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32LE(word, 0);
  head.writeUInt32LE(texts[0].length, 4);
  head.writeUInt32LE(texts[1].length, 8);
  assertWithin(limits, texts[0].length, texts[1].length);
  return Buffer.concat([head, ...texts]);
}

function readMessage<T>(limits: Limits, decode: (message: Message<Buffer>) => T): MessageReader<T> {
  let held: Buffer = Buffer.alloc(HEAD_BYTES);
  let heldBytes = 0;
  let wholeBytes: number | undefined;
  return {
    push: (bytes) => {
      const neededBytes = heldBytes + bytes.length;
      // The buffer grows with the received bytes, because the announced length may be false.
      if (neededBytes > held.length) held = Buffer.concat([held], Math.max(neededBytes, 2 * held.length));
      held.set(bytes, heldBytes);
      heldBytes = neededBytes;
      if (heldBytes < HEAD_BYTES) return undefined;
      const firstEnd = HEAD_BYTES + held.readUInt32LE(4);
      if (wholeBytes === undefined) {
        assertWithin(limits, held.readUInt32LE(4), held.readUInt32LE(8));
        wholeBytes = firstEnd + held.readUInt32LE(8);
      }
      if (heldBytes > wholeBytes) throw broken(`${String(heldBytes - wholeBytes)} bytes follow a complete message`);
      if (heldBytes < wholeBytes) return undefined;
      const [first, second] = [held.subarray(HEAD_BYTES, firstEnd), held.subarray(firstEnd, wholeBytes)];
      return decode({ word: held.readUInt32LE(0), first, second });
    },
  };
}

/** Decodes the environment. The first of duplicate variables wins, as in getenv. */
function decodeEnvironment(bytes: Buffer): Readonly<Record<string, string>> {
  const env = new Map<string, string>();
  for (const entry of bytes.toString('utf8').split('\0')) {
    const end = entry.indexOf('=', 1);
    const key = entry.slice(0, Math.max(end, 0));
    if (end > 0 && !env.has(key)) env.set(key, entry.slice(end + 1));
  }
  return Object.fromEntries(env);
}

function assertWithin(limits: Limits, first: number, second: number): void {
  if (first <= limits.first && second <= limits.second) return;
  throw broken(`a message has parts of ${String(first)} and ${String(second)} bytes, which is too large`);
}

function broken(what: string): NetplugError {
  return new NetplugError('agent/protocol', `Cannot use the socket of the agent: ${what}`, {
    hint: 'Use programs of the same release of netplug; compare "netplugctl version" with "netplug-standalone"',
  });
}
