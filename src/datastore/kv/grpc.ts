// gRPC over HTTP/2: how messages are framed, and what a server says about the outcome of a call.

/** Flags and length before each message. */
const PREFIX_BYTES = 5;

/** Outcomes of a call that netplug distinguishes, as gRPC numbers them. */
export const GrpcCode = {
  Canceled: 1,
  Unknown: 2,
  InvalidArgument: 3,
  DeadlineExceeded: 4,
  PermissionDenied: 7,
  ResourceExhausted: 8,
  FailedPrecondition: 9,
  Aborted: 10,
  OutOfRange: 11,
  Unimplemented: 12,
  Internal: 13,
  Unavailable: 14,
  Unauthenticated: 16,
} as const;
/** The largest number that gRPC defines. */
const LAST_CODE = 16;

/** A call that the server ended with an error status, or answered with something that is not gRPC. */
export class GrpcError extends Error {
  override readonly name = 'GrpcError';
  readonly code: number;

  constructor(message: string, code: number) {
    super(message);
    this.code = code;
  }
}

/** A method of a service, with the encoding of its messages. */
export interface GrpcMethod<I, O> {
  readonly path: string;
  readonly encode: (request: I) => Uint8Array;
  readonly decode: (response: Uint8Array) => O;
}

export const GRPC_HEADERS = { 'content-type': 'application/grpc+proto', 'user-agent': 'netplug', te: 'trailers' };

type Fields = ReadonlyMap<string, string>;

/** Returns the message as it is sent. */
export function framed(message: Uint8Array): Buffer {
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** Splits what a server sends into messages. */
export class GrpcFrames {
  /** Not joined before a message is complete: one of many megabytes arrives in thousands of pieces. */
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Size of the next message with its prefix, or of the prefix while it is incomplete. */
  #wanted = PREFIX_BYTES;

  /** Returns the messages that the next bytes complete. @throws GrpcError for a compressed message */
  take(chunk: Buffer): Buffer[] {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    const messages: Buffer[] = [];
    while (this.#bytes >= this.#wanted) {
      const joined = this.#chunks.length === 1 ? (this.#chunks[0] ?? chunk) : Buffer.concat(this.#chunks);
      const end = PREFIX_BYTES + joined.readUInt32BE(1);
      if (joined[0] !== 0) throw new GrpcError('protocol error: the message is compressed', GrpcCode.Internal);
      const isComplete = joined.length >= end;
      if (isComplete) messages.push(joined.subarray(PREFIX_BYTES, end));
      const rest = isComplete ? joined.subarray(end) : joined;
      this.#chunks = rest.length === 0 ? [] : [rest];
      this.#bytes = rest.length;
      this.#wanted = isComplete ? PREFIX_BYTES : end;
    }
    return messages;
  }

  /** @throws GrpcError when the last message is incomplete */
  end(): void {
    if (this.#bytes > 0) throw new GrpcError('protocol error: the message is cut off', GrpcCode.Internal);
  }
}

/** @throws GrpcError when the headers are not those of a gRPC response */
export function expectGrpc(headers: Fields): void {
  const httpStatus = Number(headers.get(':status'));
  if (httpStatus !== 200) throw new GrpcError(`HTTP ${String(httpStatus)}`, CODES.get(httpStatus) ?? GrpcCode.Unknown);
  const type = headers.get('content-type') ?? '';
  if (!type.startsWith('application/grpc')) throw new GrpcError(`unsupported content type ${type}`, GrpcCode.Unknown);
}

/** @throws GrpcError with the status that the server gave, or without one */
export function expectSuccess({ headers, trailers }: { readonly headers: Fields; readonly trailers: Fields }): void {
  const status = trailers.get('grpc-status') ?? headers.get('grpc-status');
  if (status === undefined) throw new GrpcError('protocol error: missing status', GrpcCode.Internal);
  if (status === '0') return;
  const reason = trailers.get('grpc-message') ?? headers.get('grpc-message') ?? `the status is ${status}`;
  const code = Number(status);
  const isDefined = Number.isInteger(code) && code > 0 && code <= LAST_CODE;
  throw new GrpcError(decoded(reason), isDefined ? code : GrpcCode.Internal);
}

/** Codes of gRPC for what proxies and servers without gRPC answer. */
const CODES: ReadonlyMap<number, number> = new Map([
  [400, GrpcCode.Internal],
  [401, GrpcCode.Unauthenticated],
  [403, GrpcCode.PermissionDenied],
  [404, GrpcCode.Unimplemented],
  [429, GrpcCode.Unavailable],
  [502, GrpcCode.Unavailable],
  [503, GrpcCode.Unavailable],
  [504, GrpcCode.Unavailable],
]);

/** Decodes the percent-encoding of a gRPC message; returns an invalid one unchanged. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
