import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** A span as OTLP has it in JSON; times are nanoseconds since the epoch. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly traceState?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly Attribute[];
  readonly status: { readonly code: number; readonly message?: string };
}

interface Attribute {
  readonly key: string;
  readonly value: { readonly stringValue?: string };
}

interface Request {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly ReceivedSpan[] }[];
  }[];
}

export interface OtlpReceiver extends AsyncDisposable {
  readonly url: string;
  readonly spans: readonly ReceivedSpan[];
  /** Attributes of the last resource that sent spans. */
  readonly resource: () => Readonly<Record<string, string | undefined>>;
}

/** Receives traces over HTTP; one that hangs takes requests and never answers. */
export async function startOtlpReceiver(manner: 'answers' | 'hangs' = 'answers'): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  let resource: readonly Attribute[] = [];
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await text(request);
    if (manner === 'hangs') return;
    const isExpected = request.method === 'POST' && request.url === '/v1/traces';
    for (const { resource: from, scopeSpans } of isExpected ? (JSON.parse(body) as Request).resourceSpans : []) {
      resource = from.attributes;
      spans.push(...scopeSpans.flatMap((scope) => scope.spans));
    }
    response.writeHead(isExpected ? 200 : 404, { 'content-type': 'application/json' }).end('{}');
  };
  const server = createServer((request, response) => void take(request, response));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  // listening on an IP address, a server has an AddressInfo
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${String(port)}`,
    spans,
    resource: () => textsOf(resource),
    [Symbol.asyncDispose]: async () => {
      if (!server.listening) return;
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

export function textsOf(attributes: readonly Attribute[]): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue]));
}

export function durationMs({ startTimeUnixNano, endTimeUnixNano }: ReceivedSpan): number {
  return Number(BigInt(endTimeUnixNano) - BigInt(startTimeUnixNano)) / 1e6;
}
