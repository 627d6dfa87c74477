import { type ClientHttp2Stream, constants, type IncomingHttpHeaders } from 'node:http2';
import { untilAborted } from '../../base/until-aborted.ts';
import { errorName } from './http2-frames.ts';
import type { Http2Connection } from './http2-connection.ts';
import type { UnaryConnection, UnaryResponse } from './unary-connection.ts';

/** Returns requests with one message over the connection, which streams share with them. */
export function unaryOver(connection: Http2Connection): UnaryConnection {
  return {
    get isOpen() {
      return connection.isOpen;
    },
    connect: async () => connection.connect(),
    post: async (path, { headers, body, signal }) => {
      const stream = await unlessAborted(connection.request(path, headers), signal);
      const response = responseOf(stream, () => connection.notifyResponseByteRead(), signal);
      stream.end(body);
      return response;
    },
    suspect: () => connection.suspect(),
    close: () => connection.close(),
  };
}

/** Rejects when the signal aborts first; a stream that opens after that is closed. */
export async function unlessAborted(
  opening: Promise<ClientHttp2Stream>,
  signal: AbortSignal,
): Promise<ClientHttp2Stream> {
  try {
    return await untilAborted(opening, signal);
  } catch (cause) {
    opening.then(cancel, () => undefined);
    throw signal.aborted ? reasonOf(signal) : cause;
  }
}

async function responseOf(stream: ClientHttp2Stream, onBytes: () => void, signal: AbortSignal): Promise<UnaryResponse> {
  const chunks: Buffer[] = [];
  const fields = receiveFields(stream);
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      cancel(stream);
      reject(reasonOf(signal));
    };
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    stream.on('data', (chunk: Buffer) => {
      onBytes();
      chunks.push(chunk);
    });
    stream.on('end', () => resolve({ body: Buffer.concat(chunks), ...fields }));
    stream.on('error', reject);
    stream.on('close', () => {
      signal.removeEventListener('abort', abort);
      reject(closedStream(stream));
    });
  });
}

/** Returns the headers and trailers of the response, which are empty until they arrive. */
export function receiveFields(stream: ClientHttp2Stream): Pick<UnaryResponse, 'headers' | 'trailers'> {
  const fields = { headers: new Map<string, string>(), trailers: new Map<string, string>() };
  stream.on('response', (received) => (fields.headers = mapOf(received)));
  stream.on('trailers', (received) => (fields.trailers = mapOf(received)));
  return fields;
}

function mapOf(headers: IncomingHttpHeaders): Map<string, string> {
  return new Map(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}

export function closedStream({ rstCode }: ClientHttp2Stream, cause?: unknown): Error {
  return new Error(`the server closed the stream with ${errorName(rstCode ?? 0)}`, { cause });
}

export function cancel(stream: ClientHttp2Stream): void {
  stream.close(constants.NGHTTP2_CANCEL);
}

function reasonOf(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error(String(signal.reason));
}
